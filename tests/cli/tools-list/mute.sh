# Takes the handshake, with `null` for an error, and cannot list its tools.
read -r initialize
echo '{"jsonrpc":"2.0","error":null,"result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"mute","version":"1"}}}'
read -r initialized
read -r list
echo '{"jsonrpc":"2.0","error":{"code":-32603,"message":"the index is gone"}}'
cat >/dev/null
