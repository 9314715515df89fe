export type * from "./api.js";
export { Towpath } from "./client.js";
export type { FollowOptions, RunEvent, RunOptions, TowpathOptions } from "./client.js";
export { Gates } from "./gates.js";
export type { GateWord } from "./gates.js";
export type { Fetch, Operation, RequestOptions } from "./http.js";
export { RunFailedError, TowpathError } from "./problems.js";
