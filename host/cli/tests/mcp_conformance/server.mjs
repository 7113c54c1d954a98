// The tools that the suite asks a server for, as an MCP server of a project, over stdio.
import { createInterface } from 'node:readline';
import { setTimeout as sleep } from 'node:timers/promises';

const PNG = 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg==';
const WAV = 'UklGRiQAAABXQVZFZm10IBAAAAABAAEAQB8AAAB9AAACABAAZGF0YQAAAAA=';
const text = (text) => ({ type: 'text', text });
const image = { type: 'image', data: PNG, mimeType: 'image/png' };
const resource = (uri, mimeType, text) => ({ type: 'resource', resource: { uri, mimeType, text } });
const fails = { isError: true, content: [text('This tool intentionally returns an error for testing')] };
const object = (properties, more = {}) => ({ type: 'object', properties, ...more });

const tools = {
  test_simple_text: { content: [text('This is a simple text response for testing.')] },
  test_image_content: { content: [image] },
  test_audio_content: { content: [{ type: 'audio', data: WAV, mimeType: 'audio/wav' }] },
  test_embedded_resource: {
    content: [resource('test://embedded-resource', 'text/plain', 'This is an embedded resource content.')],
  },
  test_multiple_content_types: {
    content: [
      text('Multiple content types test:'),
      image,
      resource('test://mixed-content-resource', 'application/json', '{"test":"data","value":123}'),
    ],
  },
  test_error_handling: fails,
  json_schema_2020_12_tool: { content: [text('JSON Schema 2020-12')] },
  test_custom_headers: { content: [text('headers')] },
  greet: null,
  sleep: { content: [text('slept')] },
  fail: fails,
};

const schemas = {
  json_schema_2020_12_tool: {
    $schema: 'https://json-schema.org/draft/2020-12/schema',
    $defs: { address: object({ street: { type: 'string' }, city: { type: 'string' } }, { $anchor: 'addressDef' }) },
    ...object({
      name: { type: 'string' },
      address: { $ref: '#/$defs/address' },
      contactMethod: { type: 'string', enum: ['phone', 'email'] },
      phone: { type: 'string' },
      email: { type: 'string' },
    }),
    allOf: [{ anyOf: [{ required: ['phone'] }, { required: ['email'] }] }],
    if: { properties: { contactMethod: { const: 'phone' } }, required: ['contactMethod'] },
    then: { required: ['phone'] },
    else: { required: ['email'] },
    additionalProperties: false,
  },
  test_custom_headers: object({ region: { type: 'string', 'x-mcp-header': 'Region' } }, { required: ['region'] }),
  sleep: object({ seconds: { type: 'number' } }, { required: ['seconds'] }),
};

const serverInfo = { name: 'suite', version: '1' };
const listed = (name) => ({ name, description: name, inputSchema: schemas[name] ?? { type: 'object' } });
const answers = {
  initialize: () => ({ protocolVersion: '2025-11-25', capabilities: { tools: {} }, serverInfo }),
  'tools/list': () => ({ tools: Object.keys(tools).map(listed) }),
  'tools/call': async ({ name, arguments: { seconds = 0, name: whom } = {} }) => {
    await sleep(name === 'fail' ? 1000 : seconds * 1000);
    return tools[name] ?? { content: [text(`Hello, ${whom}!`)] };
  },
};

createInterface({ input: process.stdin }).on('line', async (line) => {
  const { id, method, params } = JSON.parse(line);
  if (id === undefined) return;
  const answer = answers[method];
  const said = answer ? { result: await answer(params) } : { error: { code: -32601, message: 'unknown method' } };
  console.log(JSON.stringify({ jsonrpc: '2.0', id, ...said }));
}).on('close', () => process.exit());
