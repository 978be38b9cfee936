// What the resolvers work on, for the checker and AWS's linter (infra/lint). Nothing of it is deployed: AppSync sees only comments.
import type { Context } from '@aws-appsync/utils';

declare global {
  /** What APPSYNC_JS has of it. */
  const console: { log(...values: unknown[]): void; error(...values: unknown[]): void };
}

/** What a handler is given: after the data source answered with `Result`, and the step before with `Prev`. */
export type Ctx<Result = unknown, Prev = unknown> = Context<Arguments, Stash, { result: Prev }, undefined, Result>;

/** The arguments of all operations. A step runs only in pipelines of operations that have those that it reads. */
export type Arguments = {
  groupId: string;
  domain: string;
  nodeId: string;
  hostId: string;
  nodeName?: string | null;
  secret?: string | null;
  messageId?: string | null;
  since: string;
  sequence: number;
  data: SensorData[];
  events: { eventName: string; payload?: string | null; firedAt: string }[];
};

/** What the steps of a pipeline leave for each other. */
export type Stash = {
  group: Group;
  members: Node[];
  formerGroupId: string | null;
  /** Is the group that the node was in before a secured one? */
  formerIsSecured?: boolean;
  /** Is that group over? Then nobody needs a secret to take its node out of it. */
  formerIsOver?: boolean;
  memberSecret?: string | null;
  /** The secured group that the node left last for another one. */
  leftGroupId?: string;
  /** Whose secret a reader or subscriber of a secured group has. */
  reader?: string;
  /** Where findMember goes on, and that it need not. */
  more?: string;
  isNobodys?: boolean;
  /** Where listMembers goes on, and how many pages it has read. */
  moreMembers?: string | null;
  memberPages?: number;
  /** The same of listGroups and of listStatuses. */
  groups?: Group[];
  moreGroups?: string | null;
  groupPages?: number;
  moreStatuses?: string | null;
  statusPages?: number;
  domain: string;
  status?: Status | null;
  kind: 'status' | 'events';
  message: StatusMessage | EventsMessage;
  record: { key: { pk: string; sk: string }; names: Record<'format' | 'state' | 'owner' | 'fence' | 'updatedAt' | 'outcome', string> };
  replay?: Replay;
  sequence: number;
  failure?: Failure;
  after: number;
  since?: number;
  cursor: string;
  read?: Item[];
  /** Where events are read from, up to where the next one must come if it is known, and up to where nothing more comes. */
  from: number;
  to?: number | null;
  seen: number;
  seeks: number;
  events: object[];
  complete?: boolean;
  next: number;
  head: number;
};

/** What a client is told. */
export type Failure = { message: string; type: string };

export type SensorData = { key: string; value: string };

/** Times that end in `At`, `Until` or are called `ttl` are in seconds; `sequencedAt` and `at` in milliseconds. */
export type Group = {
  groupId: string;
  domain: string;
  name: string;
  hostId: string;
  createdAt: string;
  expiresAt: number;
  hostFreshUntil: number;
  useWebSocket: boolean;
  sequence?: number;
  eventSequence?: number;
  sequencedAt: number;
  dissolvedAt?: number;
  /** Only secured groups have these two. */
  secured?: boolean;
  hostSecret?: string;
};

export type Node = { nodeId: string; name: string; groupId: string; domain: string; ttl: number; isHidden?: boolean; caller?: string; memberSecret?: string };

export type Status = { nodeId: string; groupId: string; domain: string; data: SensorData[]; timestamp: string; ttl: number };

export type Event = { name: string; firedByNodeId: string; groupId: string; domain: string; payload?: string | null; timestamp: string };

export type StatusMessage = { nodeId: string; groupId: string; domain: string; data: SensorData[]; timestamp: string };

export type EventsMessage = { firedByNodeId: string; groupId: string; domain: string; events: Event[]; timestamp: string };

/** The message of a publish that is repeated, with the number that it got. */
export type Replay = (StatusMessage | EventsMessage) & { kind: 'status' | 'events'; sequence: number };

/** A message in the table. */
export type Item = { sequence: number; messageId?: string | null; at: number; ttl: number; lastEvent?: number } & (
  | { kind: 'status'; message: StatusMessage }
  | { kind: 'events'; message: EventsMessage }
  | { kind: 'void'; message?: null }
);

export type Page<T> = { items: T[]; nextToken?: string | null };

/** What a transaction returns. */
export type Transacted = { keys: unknown; cancellationReasons?: Reason[] | null } | null;

export type Reason = { type: string; message: string; item?: Node | null };
