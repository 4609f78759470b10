# Starts `fairwarning up` with the options in FAIRWARNING_UP, waits until it is ready, and exports its addresses.
# Its log and its ready file are in the folder FAIRWARNING_FILES. The server ends with the job.
ready=$FAIRWARNING_FILES/fairwarning-ready.json log=$FAIRWARNING_FILES/fairwarning.log
rm -f "$ready"
eval "set -- $FAIRWARNING_UP"
fairwarning up --ready-file "$ready" "$@" > "$log" 2>&1 &
export FAIRWARNING_PID=$!
wait_until_ready='until [ -e "$0" ]; do kill -0 "$FAIRWARNING_PID" && sleep 0.1 || exit 1; done'
timeout 60 sh -c "$wait_until_ready" "$ready" || { cat "$log" >&2; kill "$FAIRWARNING_PID"; exit 1; }
eval "$(python3 - "$ready" <<'PYTHON'
import json, shlex, sys
ready = json.load(open(sys.argv[1], encoding="utf-8"))
endpoints = ready["metadata"]
first = next(iter(endpoints.values()), "")
values = {"URL": ready["operator"], "ENDPOINT": first, "ENDPOINTS": json.dumps(endpoints)}
for name, value in values.items():
    print(f"export FAIRWARNING_{name}={shlex.quote(value)}")
PYTHON
)"
