# Answers the handshake, lists `search` and a tool whose schema is refused, and answers `search`.
while read -r line; do
  id=${line#*\"id\":}; id=${id%%[,\}]*}
  case $line in
    *'"method":"initialize"'*)
      echo "{\"jsonrpc\":\"2.0\",\"id\":$id,\"result\":{\"protocolVersion\":\"2025-06-18\",\"capabilities\":{\"tools\":{}},\"serverInfo\":{\"name\":\"notes\",\"version\":\"1\"}}}" ;;
    *'"method":"tools/list"'*)
      echo "{\"jsonrpc\":\"2.0\",\"id\":$id,\"result\":{\"tools\":[{\"name\":\"search\",\"description\":\"Search the notes.\",\"inputSchema\":{\"type\":\"object\",\"properties\":{\"about\":{\"type\":\"string\"}}}},{\"name\":\"draw\",\"inputSchema\":{\"\$ref\":\"https://example.com/schema.json\"}}]}}" ;;
    *'"name":"search"'*)
      echo "{\"jsonrpc\":\"2.0\",\"id\":$id,\"result\":{\"content\":[{\"type\":\"text\",\"text\":\"{\\\"notes\\\": [\\\"bees\\\"]}\"}]}}" ;;
    *'"method":"tools/call"'*)
      echo "{\"jsonrpc\":\"2.0\",\"id\":$id,\"error\":{\"code\":-32602,\"message\":\"no such tool\"}}" ;;
  esac
done
