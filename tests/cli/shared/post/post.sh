# Notes what is sent; the second one never gets an answer the first time.
while read -r line; do
  id=${line#*\"id\":}; id=${id%%[,\}]*}
  case $line in
    *'"method":"initialize"'*)
      echo "{\"jsonrpc\":\"2.0\",\"id\":$id,\"result\":{\"protocolVersion\":\"2025-06-18\",\"capabilities\":{\"tools\":{}},\"serverInfo\":{\"name\":\"post\",\"version\":\"1\"}}}" ;;
    *'"method":"tools/list"'*)
      echo "{\"jsonrpc\":\"2.0\",\"id\":$id,\"result\":{\"tools\":[{\"name\":\"send\",\"description\":\"Sends.\",\"inputSchema\":{\"type\":\"object\",\"properties\":{\"to\":{\"type\":\"string\"}}}}]}}" ;;
    *'"method":"tools/call"'*)
      to=${line#*\"to\":\"}; to=${to%%\"*}
      echo "$to" >>sent
      if [ "$to" = bob ] && [ ! -e begun ]; then touch begun; sleep 60; fi
      echo "{\"jsonrpc\":\"2.0\",\"id\":$id,\"result\":{\"content\":[{\"type\":\"text\",\"text\":\"sent to $to\"}]}}" ;;
  esac
done
