#!/bin/sh
# A handler: drains before an event, approves once, recovers. Usage: handler.sh [BASE_URL]. Needs curl and jq.
base=${1:-http://169.254.169.254}
events="$base/metadata/scheduledevents?api-version=2020-07-01"
drain=${FAIRWARNING_DRAIN:-true}             # your work
recover=${FAIRWARNING_RECOVER:-true}         # your work
memory=${FAIRWARNING_WORK:-.}/handler-memory # a file for each event; must survive a reboot
name='' wait=1 timeout=150                   # seconds; the first answer may take two minutes

# Prints a line for each event of this machine: its id, and whether to approve it. Other machines approve their own
# events, and types that are not listed need no approval.
ours='.Events[] | select(.Resources | index($name)) | "\(.EventId)/\(
    .EventStatus == "Scheduled" and .Resources == [$name]
    and (.EventType | IN("Freeze", "Reboot", "Redeploy", "Preempt", "Terminate")))"'

# No proxy: it would return the events of its own machine.
ask() { curl -fsS --noproxy '*' --max-time "$timeout" -H Metadata:true "$@"; }

act() {
    echo "$name: $1 ($3)"
    "$2" "$3"
}

handle() {
    drained=''
    for event in $1; do
        id=${event%/*}
        case $(cat "$memory/$id" 2>/dev/null)/${event#*/} in
        /*) act draining "$drain" "$id" && echo drained >"$memory/$id" && drained=yes || return ;;
        drained/true)
            ask --data "{\"StartRequests\":[{\"EventId\":\"$id\"}]}" "$events" || return
            echo approved >"$memory/$id"
            ;;
        esac
    done
    [ -z "$drained" ] || { poll; return; } # look again before approving: the event may be over
    [ -z "$1" ] || return 0
    for file in "$memory"/*; do # not before all events are gone, whatever duration was announced
        [ ! -e "$file" ] || { act "back to work" "$recover" "${file##*/}" && rm "$file"; } || return
    done
}

poll() { # a failed poll says nothing about events
    [ "$name" ] || name=$(ask "$base/metadata/instance/compute/name?api-version=2021-02-01&format=text") || return
    document=$(ask "$events") && [ "$name" ] && [ "$document" ] || return
    list=$(printf %s "$document" | jq -r --arg name "$name" "$ours") && handle "$list"
}

mkdir -p "$memory"
while true; do
    if poll; then
        wait=1 timeout=10
    else
        echo "$name: trying again" >&2
        wait=$((wait < 8 ? wait * 2 : 8))
    fi
    sleep "$wait"
done
