// The client that the suite looks at: `opcell mcp --gateway` in front of the suite's server, or a run. Calls what a
// scenario wants to be called.
import { spawn, spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createInterface } from 'node:readline';

const [opcell, parent, url] = process.argv.slice(2);
const scenario = process.env.MCP_CONFORMANCE_SCENARIO;
const context = JSON.parse(process.env.MCP_CONFORMANCE_CONTEXT ?? '{}');
const cwd = mkdtempSync(`${parent}/client-`);
const project = `[mcp.suite]\nurl = "${url}"\nprivate = true\n`;
writeFileSync(`${cwd}/opcell.toml`, project);
const env = { ...process.env, HOME: cwd };
// The exit code tells a run that waits from one that has ended.
const run = (...args) => {
  const { status, stdout, stderr } = spawnSync(opcell, args, { cwd, env, encoding: 'utf8' });
  console.log(args.join(' '), status, stdout, stderr);
  return status;
};

// What asks for input is called by a run, which waits for its user.
if (scenario === 'sep-2322-client-request-state') {
  const tools = ['test_mrtr_echo_state', 'test_mrtr_unrelated', 'test_mrtr_no_state', 'test_mrtr_no_result_type'];
  const mapped = tools.map((tool) => `${tool} = { mcp = "suite", tool = "${tool}" }\n`).join('');
  writeFileSync(`${cwd}/opcell.toml`, `${project}[tools]\n${mapped}`);
  const steps = tools.map((tool) => `  - id: ${tool}\n    type: tool\n    tool: ${tool}\n    outputs:\n      said: { type: string, value: $result }\n`);
  writeFileSync(`${cwd}/w.yaml`, `outputs:\n  said: { type: string, value: $steps.${tools[3]}.output.said }\nsteps:\n${steps.join('')}`);
  run('trust');
  let status = run('run', 'w.yaml', '--journal', '--as', 'w');
  for (let asked = 0; status === 3 && asked < tools.length; asked += 1) {
    run('runs', 'answer', 'w', '--value', 'confirmed=yes');
    status = run('runs', 'resume', 'w');
  }
  rmSync(cwd, { recursive: true });
  process.exit(status);
}

run('trust');
const gateway = spawn(opcell, ['mcp', '--gateway'], { cwd, env, stdio: ['pipe', 'pipe', 'inherit'] });
const ended = new Promise((done) => gateway.on('close', done));
const waiting = new Map();
createInterface({ input: gateway.stdout }).on('line', (line) => {
  const message = JSON.parse(line);
  waiting.get(message.id)?.(message);
});

const send = (message) => gateway.stdin.write(`${JSON.stringify({ jsonrpc: '2.0', ...message })}\n`);
const ask = (method, params = {}) => new Promise((done) => {
  const id = waiting.size;
  waiting.set(id, ({ result, error }) => {
    console.log(method, JSON.stringify(params), JSON.stringify(result ?? error).slice(0, 4000));
    done(result ?? {});
  });
  send({ id, method, params });
});

await ask('initialize', { protocolVersion: '2025-11-25', capabilities: {}, clientInfo: { name: 'suite', version: '1' } });
send({ method: 'notifications/initialized' });
const found = ((await ask('tools/list')).tools ?? []).filter((tool) => tool.name.startsWith('suite__'));
const schemaOf = (name) => found.find((tool) => tool.name === `suite__${name}`).inputSchema;
const call = (name, args) => ask('tools/call', { name: `suite__${name}`, arguments: args });
// A text for each argument that is asked for.
const some = ({ required = [] }) => Object.fromEntries(required.map((name) => [name, 'a']));
// An absent argument, as the schemas of the suite do not allow `null`.
const present = (args) => Object.fromEntries(Object.entries(args).filter(([, value]) => value !== null));

if (context.toolCalls) {
  for (const { name, arguments: args } of context.toolCalls) await call(name, present(args));
} else if (scenario === 'tools_call') {
  await call('add_numbers', { a: 5, b: 3 });
} else if (scenario === 'json-schema-2020-12-preservation') {
  const echo = found.map((tool) => tool.name.slice('suite__'.length)).find((name) => !name.includes('2020_12'));
  await call(echo, { schema: schemaOf('json_schema_2020_12_tool') });
} else {
  for (const { name, inputSchema } of found) await call(name.slice('suite__'.length), some(inputSchema));
}
gateway.stdin.end();
await ended;
rmSync(cwd, { recursive: true });
