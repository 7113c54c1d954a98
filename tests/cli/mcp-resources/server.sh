# Has resources, a template and a prompt, and counts what it is asked for.
while read -r line; do
  id=${line#*\"id\":}; id=${id%%[,\}]*}
  say() { echo "{\"jsonrpc\":\"2.0\",\"id\":$id,\"result\":{\"resultType\":\"complete\",$1}}"; }
  case $line in
    *'"method":"server/discover"'*)
      say '"supportedVersions":["2026-07-28"],"capabilities":{"tools":{},"resources":{},"prompts":{}},"ttlMs":0,"cacheScope":"private"' ;;
    *'"method":"tools/list"'*)
      say '"ttlMs":0,"cacheScope":"private","tools":[]' ;;
    *'"method":"resources/list"'*)
      say '"ttlMs":0,"cacheScope":"private","resources":[{"uri":"notes://1","name":"bees","mimeType":"text/plain"},{"uri":"notes://logo","name":"logo","mimeType":"image/png"},{"uri":"keys://all","name":"keys"},{"name":"nameless"}]' ;;
    *'"method":"resources/templates/list"'*)
      say '"ttlMs":0,"cacheScope":"private","resourceTemplates":[{"uriTemplate":"notes://{number}","name":"note","description":"A note by its number."}]' ;;
    *'"method":"prompts/list"'*)
      say '"ttlMs":0,"cacheScope":"private","prompts":[{"name":"review","description":"Reviews a note.","arguments":[{"name":"note","required":true}]},{"name":"rob"}]' ;;
    *'"uri":"notes://logo"'*)
      say '"ttlMs":0,"cacheScope":"private","contents":[{"uri":"notes://logo","mimeType":"image/png","blob":"aGVsbG8h"}]' ;;
    *'"uri":"notes://1"'*)
      say '"ttlMs":0,"cacheScope":"private","contents":[{"uri":"notes://1","text":"Bees have six legs."}]' ;;
    *'"method":"resources/read"'*)
      echo "$line" >>"leaked"; say '"contents":[{"uri":"keys://all","text":"LEAKED"}]' ;;
    *'"name":"review"'*)
      say '"messages":[{"role":"user","content":{"type":"text","text":"Review the note 1."}}]' ;;
    *'"method":"prompts/get"'*)
      echo "$line" >>"leaked"; say '"messages":[{"role":"user","content":{"type":"text","text":"LEAKED"}}]' ;;
  esac
done
