# Speaks the current revision. `add` asks for a project, and then whether it may add: once for the call, which it counts.
while read -r line; do
  id=${line#*\"id\":}; id=${id%%[,\}]*}
  say() { echo "{\"jsonrpc\":\"2.0\",\"id\":$id,\"result\":{\"resultType\":\"complete\",$1}}"; }
  ask() { echo "{\"jsonrpc\":\"2.0\",\"id\":$id,\"result\":{\"resultType\":\"input_required\",\"requestState\":\"$1\",\"inputRequests\":{\"$2\":{\"method\":\"elicitation/create\",\"params\":{$3}}}}}"; }
  given=$(printf '%s' "$line" | sed -n 's/.*"inputResponses":\(.*\),"requestState".*/\1/p')
  case $line in
    *'"method":"server/discover"'*)
      say '"supportedVersions":["2026-07-28"],"capabilities":{"tools":{}},"ttlMs":0,"cacheScope":"private"' ;;
    *'"method":"tools/list"'*)
      say '"ttlMs":0,"cacheScope":"private","tools":[{"name":"add","description":"Add a note.","inputSchema":{"type":"object"}},{"name":"secret","inputSchema":{"type":"object"}}]' ;;
    *'"name":"secret"'*)
      ask s key '"message":"Who are you?","requestedSchema":{"type":"object","properties":{"password":{"type":"string"}}}' ;;
    *'"name":"add"'*'"action":"decline"'*)
      say '"isError":true,"content":[{"type":"text","text":"the user declined"}]' ;;
    *'"name":"add"'*'"requestState":"where"'*)
      ask sure sure '"mode":"form","message":"Add it?","requestedSchema":{"type":"object","properties":{"sure":{"type":"boolean"}},"required":["sure"]}' ;;
    *'"name":"add"'*'"requestState":"sure"'*)
      say "\"content\":[],\"structuredContent\":{\"added\":$given}" ;;
    *'"elicitation":{"form":'*'"name":"add"'*|*'"name":"add"'*'"elicitation":{"form":'*)
      echo call >>calls
      ask where where '"message":"Where does it belong?","requestedSchema":{"type":"object","properties":{"project":{"type":"string","title":"Project","enum":["docs","code"]},"pages":{"type":"integer","minimum":1,"default":1}},"required":["project"]}' ;;
    *'"name":"add"'*)
      say '"content":[{"type":"text","text":"no one can be asked"}]' ;;
  esac
done
