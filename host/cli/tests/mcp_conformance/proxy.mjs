// Stands between the suite and the gateway, and gives tools the names under which the suite calls them: it adds and takes
// away the name of the server, or the mark of a workflow.
import { createServer, request } from 'node:http';

const [target, ...workflows] = process.argv.slice(2);
const { hostname, port } = new URL(target);
const inner = (name) => (workflows.includes(name) ? `run_${name}` : `suite__${name}`);
const outer = (text) => text.replaceAll('"suite__', '"').replaceAll(/"run_(\w+)"/g, '"$1"');

createServer((from, to) => {
  const chunks = [];
  from.on('data', (chunk) => chunks.push(chunk)).on('end', () => {
    const headers = { ...from.headers };
    let body = Buffer.concat(chunks);
    const message = (() => { try { return JSON.parse(body); } catch { return {}; } })();
    if (message.method === 'tools/call' && typeof message.params?.name === 'string') {
      if (headers['mcp-name'] === message.params.name) headers['mcp-name'] = inner(message.params.name);
      message.params.name = inner(message.params.name);
      body = Buffer.from(JSON.stringify(message));
    }
    if (chunks.length > 0) {
      headers['content-length'] = body.length;
      delete headers['transfer-encoding'];
    }
    const on = request({ hostname, port, path: from.url, method: from.method, headers }, (answer) => {
      const { 'content-length': _, ...rest } = answer.headers;
      to.writeHead(answer.statusCode, rest);
      to.flushHeaders();
      let line = '';
      answer.setEncoding('utf8').on('data', (text) => {
        const whole = (line + text).lastIndexOf('\n') + 1;
        to.write(outer((line + text).slice(0, whole)));
        line = (line + text).slice(whole);
      }).on('end', () => to.end(outer(line))).on('error', () => to.destroy());
    });
    on.on('error', () => to.destroy());
    to.on('close', () => on.destroy());
    on.end(body);
  });
}).listen(0, '127.0.0.1', function () { console.log(this.address().port); });
