# Answers a call with a task, which has ended once the file `done` is there. Counts calls and polls.
while read -r line; do
  id=${line#*\"id\":}; id=${id%%[,\}]*}
  say() { echo "{\"jsonrpc\":\"2.0\",\"id\":$id,\"result\":{$1}}"; }
  case $line in
    *'"method":"server/discover"'*)
      say '"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{}},"ttlMs":0,"cacheScope":"private"' ;;
    *'"method":"tools/list"'*)
      say '"resultType":"complete","ttlMs":0,"cacheScope":"private","tools":[{"name":"dig","description":"Digs.","inputSchema":{"type":"object"}}]' ;;
    *'"method":"tools/call"'*)
      echo call >>calls
      say '"resultType":"task","taskId":"t-1","status":"working","pollIntervalMs":50' ;;
    *'"method":"tasks/get"'*'"taskId":"t-1"'*|*'"taskId":"t-1"'*'"method":"tasks/get"'*)
      echo poll >>calls
      if [ -e done ]; then
        say '"resultType":"complete","taskId":"t-1","status":"completed","result":{"content":[{"type":"text","text":"{\"dug\": 7}"}]}'
      else
        say '"resultType":"complete","taskId":"t-1","status":"working","pollIntervalMs":50'
      fi ;;
  esac
done
