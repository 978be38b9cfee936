/** Reports and events are collected for this long and sent together. */
export const BATCH_MS: number;
/** A node reports at most once per this interval, unless `reportMs` says otherwise. */
export const REPORT_MS: number;
/** The selection that both generations of clients understand. */
export const EVERYTHING: string;

/**
 * Where to subscribe: `wss://ID.appsync-realtime-api.REGION.amazonaws.com/graphql` for an API on AppSync's own domain, and for any other
 * (custom domains, the local platform) `endpoint` over WebSocket with `/realtime` behind it.
 */
export function realtimeOf(endpoint: string): string;

export class MeshError extends Error {
  readonly type: string;
  /** The group has ended: trying again is of no use. */
  readonly isEnd: boolean;
  /** The secret is wrong or missing. */
  readonly isStranger: boolean;
  readonly isRetryable: boolean;
  /** The key of the value that was refused, or the name of the event that was not fired. */
  readonly key?: string;
  readonly event?: string;
}

export interface Group {
  id: string;
  domain: string;
  fullId?: string;
  name?: string;
  hostId?: string;
  createdAt?: string;
  expiresAt?: string;
  heartbeatIntervalSeconds?: number;
  useWebSocket?: boolean;
  pollingIntervalSeconds?: number;
  /** Whether members prove themselves with secrets. */
  secured?: boolean;
}

export interface NodeStatus {
  nodeId: string;
  groupId: string;
  domain: string;
  data: { key: string; value: string }[];
  timestamp: string;
}

export interface FiredEvent {
  name: string;
  firedByNodeId: string;
  groupId: string;
  domain: string;
  payload: string | null;
  timestamp: string;
  cursor: string | null;
}

export interface BatchEvent {
  events: FiredEvent[];
  firedByNodeId: string;
  groupId: string;
  domain: string;
  timestamp: string;
}

export interface MeshMessage {
  groupId: string | null;
  domain: string | null;
  sequence: number;
  messageId: string | null;
  timestamp: string | null;
  nodeStatus: NodeStatus | null;
  batchEvent: BatchEvent | null;
  groupDissolve: { groupId: string; domain: string; message: string } | null;
}

/**
 * - `open`: the node is subscribed, and messages come as they are published.
 * - `lost`: the WebSocket ended or could not be opened. Another attempt follows after 0.25 to 15 s.
 * - `polling`: the node asks for messages every `pollingIntervalSeconds` (2 s if the server does not say it), until it is `open`.
 */
export type Connection = 'open' | 'lost' | 'polling';

/**
 * - `left`, `dissolved`, `dropped`: `leave()` was called, the host has dissolved the group, `drop()` was called.
 * - `GroupNotFound`: the group is over. Its time is up, its host is silent, or the notice of its end was missed.
 * - `NodeNotFound`: the node is no longer in the group. It left, or joined another one, from another page.
 * - `Unauthorized`: the secret is no longer that of the node. It left, or somebody else has its id.
 * - `QuotaExceeded`, `ValidationError`: the node had expired, and there was no place for it when it joined again.
 */
export type Reason =
  | 'left'
  | 'dissolved'
  | 'dropped'
  | 'GroupNotFound'
  | 'NodeNotFound'
  | 'Unauthorized'
  | 'QuotaExceeded'
  | 'ValidationError';

export interface Kinds {
  status: NodeStatus;
  events: BatchEvent;
  message: MeshMessage;
  /** The numbers of messages that can no longer be fetched. */
  gap: { from: number; to: number };
  /** Once. Afterwards nothing comes. */
  ended: { reason: Reason };
  connection: Connection;
  /** A value (`key`) or an event (`event`) that was refused and left out, or a publish that could not be sent. */
  failed: MeshError;
}

export interface Options {
  /** Where to send queries and mutations: the output `MeshEndpoint` of a deployment, or `https://DOMAIN/graphql` of a custom domain. */
  endpoint: string;
  /** Where to subscribe: the output `MeshRealtimeEndpoint` of a deployment. Default: what `realtimeOf` makes of `endpoint`. */
  realtime?: string;
  apiKey: string;
  /** For Node before 22: `ws`. */
  WebSocket?: unknown;
  fetch?: typeof globalThis.fetch;
  /**
   * Is told, once per outage, that a node cannot subscribe and polls instead, and why; that a listener threw; and what was not published, if
   * nobody listens to `failed`. Default: `console.warn`.
   */
  warn?: (message: string) => void;
  /** How long a node waits between two reports, in milliseconds. Default: `REPORT_MS`. docs/mesh.md says what it costs. */
  reportMs?: number;
  /** Time and random numbers, for tests. */
  machine?: Machine;
}

export interface Machine {
  setTimeout(work: () => void, ms: number): unknown;
  clearTimeout(timer: unknown): void;
  now(): number;
  random(): number;
}

export class Mesh {
  constructor(options: Options);
  request<T = unknown>(query: string, variables?: Record<string, unknown>): Promise<T>;
  createDomain(): Promise<string>;
  listGroups(domain: string): Promise<Group[]>;
  host(group: {
    name: string;
    domain: string;
    hostId: string;
    maxConnectionTimeSeconds?: number;
    useWebSocket?: boolean;
    /** Default: true. Clients of earlier generations can join only groups that are not secured. */
    secured?: boolean;
    /** 16 to 128 characters, for a host that comes again from another page. Default: a new one. */
    secret?: string;
  }): Promise<Membership>;
  join(node: { groupId: string; domain: string; nodeId: string; nodeName?: string; secret?: string }): Promise<Membership>;
}

export class Membership {
  readonly group: Group;
  readonly nodeId: string;
  readonly isHost: boolean;
  /** What this node proves itself with; null in a group that is not secured. Keep it to be the same node after a reload. */
  readonly secret: string | null;
  /** The last sequence that the listeners have seen. */
  readonly sequence: number;
  /** Returns a function that stops listening. A listener that throws or rejects is told to `warn`; the others hear all the same. */
  on<K extends keyof Kinds>(kind: K, listener: (value: Kinds[K]) => void): () => void;
  /** The last report of each member of the group. */
  statuses(): Promise<NodeStatus[]>;
  /**
   * Resolves when the values are published, or nothing has changed. Rejects if one of them was refused (`error.key`): it is left out, and the others are
   * published. Rejects too if the report could not be sent: then the next one sends the values again. Nobody has to look at it: `failed` tells the same.
   */
  report(values: Record<string, string | number | boolean>): Promise<void>;
  /** Resolves when the event is published. Rejects if it was refused or could not be sent (`error.event`). Nobody has to look at it: `failed` tells the same. */
  fire(name: string, payload?: unknown): Promise<void>;
  /** Sends at once what is waiting. Rejects with the first failure. */
  flush(): Promise<void>;
  /** Rejects if the server could not be told. The membership has ended in any case. */
  leave(): Promise<void>;
  /** Only for the host. Rejects if the group is not dissolved: then the membership goes on. */
  dissolve(): Promise<void>;
  /** Stops without telling the server. */
  drop(): void;
}
