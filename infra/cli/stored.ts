// Whether secrets are there. Nothing here can read a value: SSM and Secrets Manager are asked for descriptions, which hold none.
import { DescribeSecretCommand, ResourceNotFoundException, SecretsManagerClient } from '@aws-sdk/client-secrets-manager';
import { paginateDescribeParameters, SSMClient } from '@aws-sdk/client-ssm';
import { SECRETS_MANAGER } from '../template.ts';

/** How many names one filter of DescribeParameters may have, and how many parameters one page. */
const NAMES_PER_CALL = 50;

/** Those of the names under which nothing is stored. What Secrets Manager is about to delete can no longer be read, so it counts as missing. */
export async function missing(names: string[]): Promise<string[]> {
  const managed = names.filter((name) => name.startsWith(SECRETS_MANAGER));
  const there = new Set([
    ...await storedParameters(names.filter((name) => !name.startsWith(SECRETS_MANAGER))),
    ...await storedSecrets(managed),
  ]);
  return names.filter((name) => !there.has(name));
}

async function storedParameters(names: string[]): Promise<string[]> {
  const client = new SSMClient({});
  const found: string[] = [];
  for (let i = 0; i < names.length; i += NAMES_PER_CALL) {
    const Values = names.slice(i, i + NAMES_PER_CALL);
    // A page may be empty although more follow.
    for await (const page of paginateDescribeParameters({ client }, { ParameterFilters: [{ Key: 'Name', Option: 'Equals', Values }], MaxResults: NAMES_PER_CALL })) {
      found.push(...(page.Parameters ?? []).map((p) => p.Name!));
    }
  }
  return found;
}

async function storedSecrets(names: string[]): Promise<string[]> {
  const client = new SecretsManagerClient({});
  const found: string[] = [];
  for (const name of names) {
    try {
      const { DeletedDate } = await client.send(new DescribeSecretCommand({ SecretId: name.slice(SECRETS_MANAGER.length) }));
      if (DeletedDate === undefined) found.push(name);
    } catch (error) {
      if (!(error instanceof ResourceNotFoundException)) throw error;
    }
  }
  return found;
}
