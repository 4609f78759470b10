# Checks the handler whose command line is in FAIRWARNING_HANDLER, with the options and scenarios in FAIRWARNING_CHECK.
# Each scenario has a server of its own, so the handler must not see the addresses of another.
unset FAIRWARNING_URL FAIRWARNING_ENDPOINT FAIRWARNING_ENDPOINTS
eval "set -- $FAIRWARNING_CHECK -- $FAIRWARNING_HANDLER"
fairwarning check --junit "$FAIRWARNING_JUNIT" "$@"
