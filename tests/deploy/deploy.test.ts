// The whole of it, deployed with the real CDK to a local AWS whose IAM is enforced, and then used.
//
// The tests build on each other, in order: this is one story, told in chapters (README.md says how to add one). What the local AWS
// cannot prove is in docs/verification.md.
import { after, before, beforeEach } from 'node:test';
import { world } from './world.ts';

const CHAPTERS = ['deployment', 'doctor', 'privileges', 'use', 'operator', 'versions', 'rollout', 'schedules', 'end'];

before(() => world.start());
after(() => world.stop());
beforeEach(() => world.assertIntact());

const told = process.env.CHAPTERS?.split(',') ?? CHAPTERS;
for (const chapter of told) await import(`./chapters/${chapter}.ts`);
