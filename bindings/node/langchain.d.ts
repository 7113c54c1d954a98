import type { DynamicStructuredTool } from "@langchain/core/tools";
import type { CallOptions, Host, Reply } from "./index";

export interface OperationToolsOptions extends Omit<CallOptions, "signal"> {
  /** The IDs of the operations that the model may call; all of them by default. */
  operations?: readonly string[];
  /** Gets every reply, with its receipt. */
  onReply?: (reply: Reply, operation: string) => void | Promise<void>;
}

/**
 * Returns the operations of a host as tools of LangChain.js, by their names: `repo/inventory` is `repo_inventory`.
 * A failure is a message with the status `error`, with the change that would allow what was refused; the artifact of
 * every message has the receipt.
 */
export declare function operationTools(host: Host, options?: OperationToolsOptions): Promise<DynamicStructuredTool[]>;
