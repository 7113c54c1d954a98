// A program that TypeScript checks: nothing runs it.

import {
  Grant,
  Host,
  Plugin,
  Text,
  Workflow,
  tool,
  type Answer,
  type JsonSchema,
  type Model,
  type Receipt,
  type Reply,
} from "opcell";

const schema: JsonSchema = { type: "object", properties: { article: { type: "integer" } } };
const price = tool("shop.price", { description: "Returns a price.", schema }, ({ article }, context) => {
  const tenant: string | undefined = context.tenant;
  return [article, tenant];
});
const model: Model = async ({ messages, text }): Promise<Answer> => {
  text(messages[0]!.content);
  return { content: "hello", usage: { outputTokens: 1 } };
};
const host = new Host({ plugins: [Plugin.code({ grants: [Grant.tool("shop.price")] })], tools: [price], model });

export async function main(): Promise<string[]> {
  await host.setTenant("acme", { providers: { mine: model }, limits: { memory: "16 MiB" } });
  const reply: Reply<{ result: number }> = await host.invoke("code/run", {}, { timeoutMs: 2_000, tenant: "acme" });
  const receipt: Receipt | undefined = reply.receipt;
  const seen: string[] = [String(reply.data.result), receipt?.operation ?? ""];
  const run = await host.start(await Workflow.load("w.edn"), {}, { text: true });
  for await (const update of run.events()) {
    if (update.type === "text") seen.push(update.text);
    else if (update.type === "suspended") seen.push(update.questions[0]!.kind);
    else if (update.type === "event") seen.push(update.kind, update.at);
    if (update instanceof Text) seen.push(String(update.effect));
  }
  // @ts-expect-error: a name of an option that there is not
  await host.setTenant("acme", { grant: {} });
  // @ts-expect-error: a number is no name
  await host.removeTenant(7);
  return seen;
}
