// Deploys everything with the real CDK to a local AWS that enforces IAM, and then uses it.
//
// The tests are in chapters. They run in order, and each relies on those before it (README.md says how to add one). docs/verification.md
// says what the local AWS cannot prove.
import { after, before, beforeEach } from 'node:test';
import { world } from './world.ts';

const CHAPTERS = ['deployment', 'doctor', 'privileges', 'pipeline', 'use', 'taking-over', 'operator', 'versions', 'rollout', 'schedules', 'feeds', 'restoring', 'accept', 'end', 'importing'];

before(() => world.start());
after(() => world.stop());
beforeEach(() => world.assertIntact());

const told = process.env.CHAPTERS?.split(',') ?? CHAPTERS;
for (const chapter of told) await import(`./chapters/${chapter}.ts`);
