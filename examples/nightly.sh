#!/bin/sh
# A merge without a terminal, every night: one log of JSON lines per run, one line of mail where something is wrong.
# In the crontab (crontab -e), at half past two:
#     30 2 * * *  cd /srv/lists && sh examples/nightly.sh sample_data/vber.toml merged
# Standard output and standard error of this script are empty unless a person should look, so cron writes no other mail.
set -u
options=$1 out=$2
log=${3:-vber.log}

vber merge --config "$options" --out "$out" --force --log-json 2>> "$log"
code=$?
case $code in
    0) ;;
    6) echo "vber: stopped at --max-time or --max-sweeps before it came to rest; see the last lines of $log" >&2 ;;
    *) echo "vber: exit code $code, $out is as it was before; see the last line of $log" >&2; exit $code ;;
esac
vber check "$out" > /dev/null || { echo "vber: $out is not as it was written" >&2; exit 4; }
