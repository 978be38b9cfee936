// Every function starts with its real configuration and secrets, and answers.
import { InvokeCommand, LambdaClient } from '@aws-sdk/client-lambda';
import { described } from '../../cli/world.ts';
import { must, proven, type Step } from '../step.ts';

export const HEALTH = { ichido: 'health' };

export const functions: Step = {
  name: 'functions',
  claim: 'every function answers through live',
  async prove(world) {
    const lambda = new LambdaClient({});
    const all = described(world.env).functions;
    for (const { deployed } of all) {
      const answer = await lambda.send(new InvokeCommand({ FunctionName: deployed, Qualifier: 'live', Payload: JSON.stringify(HEALTH) }));
      must(!answer.FunctionError, `${deployed}: ${new TextDecoder().decode(answer.Payload)}`);
    }
    return proven(`${all.length} functions answer through live${world.place('local AWS')}`);
  },
};
