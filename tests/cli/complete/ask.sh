# Asks for what may stand in place of the last word, as the script of `opcell completions bash` does.
OPCELL_COMPLETE=bash _CLAP_IFS='
' _CLAP_COMPLETE_INDEX=$(($# - 1)) "$OPCELL" -- "$@"
echo
