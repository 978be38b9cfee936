// The query page: runs an operation, follows a subscription, and lists the fields of the schema. It talks only to the program that
// served it.
const $ = (id) => document.getElementById(id);
const [query, variables, answer, state, key] = ['query', 'variables', 'answer', 'state', 'key'].map($);
const ROOTS = ['query', 'mutation', 'subscription'];
const INTROSPECTION = `{ __schema {
  queryType { name } mutationType { name } subscriptionType { name }
  types { name kind
    fields { name type { ...t } args { name defaultValue type { ...t } } } }
} }
fragment t on __Type { kind name ofType { kind name ofType { kind name ofType { kind name } } } }`;
let socket = null;

const show = (value) => { answer.textContent = typeof value === 'string' ? value : JSON.stringify(value, null, 2); };

async function post(text, given) {
  const response = await fetch('/graphql', {
    method: 'POST',
    headers: { 'content-type': 'application/json', 'x-api-key': key.value },
    body: JSON.stringify({ query: text, variables: given }),
  });
  return response.json();
}

function readVariables() {
  const text = variables.value.trim();
  return text === '' ? {} : JSON.parse(text);
}

async function run() {
  stop();
  let given;
  try {
    given = readVariables();
  } catch (error) {
    show(`The variables are not JSON: ${error.message}`);
    return;
  }
  if (/^\s*(#.*\n\s*)*subscription\b/.test(query.value)) {
    subscribe(given);
    return;
  }
  state.textContent = 'running…';
  const started = performance.now();
  try {
    show(await post(query.value, given));
    state.textContent = `${(performance.now() - started).toFixed(1)} ms`;
  } catch (error) {
    show(`No answer: ${error.message}`);
    state.textContent = '';
  }
}

// AppSync's realtime protocol.
function subscribe(given) {
  const authorization = { host: location.host, 'x-api-key': key.value };
  const header = btoa(JSON.stringify(authorization));
  const heard = [];
  const opened = new WebSocket(`ws://${location.host}/graphql/realtime?header=${encodeURIComponent(header)}&payload=e30=`, 'graphql-ws');
  socket = opened;
  $('stop').hidden = false;
  state.textContent = 'connecting…';
  show('');
  opened.onopen = () => opened.send(JSON.stringify({ type: 'connection_init' }));
  opened.onmessage = ({ data }) => {
    const message = JSON.parse(data);
    if (message.type === 'connection_ack') {
      const operation = { query: query.value, variables: given };
      opened.send(JSON.stringify({ id: '1', type: 'start', payload: { data: JSON.stringify(operation), extensions: { authorization } } }));
    } else if (message.type === 'start_ack') {
      state.textContent = 'subscribed; waiting for a mutation';
    } else if (message.type === 'data') {
      heard.unshift(message.payload);
      heard.length = Math.min(heard.length, 100);
      state.textContent = `${heard.length} received, newest first`;
      show(heard);
    } else if (message.type !== 'ka') {
      show(message);
    }
  };
  opened.onclose = () => {
    if (socket === opened) {
      state.textContent = 'the subscription has ended';
      $('stop').hidden = true;
      socket = null;
    }
  };
}

function stop() {
  if (socket) {
    const open = socket;
    socket = null;
    open.close();
    state.textContent = '';
  }
  $('stop').hidden = true;
}

const typeText = (type) => {
  if (type.kind === 'NON_NULL') return `${typeText(type.ofType)}!`;
  if (type.kind === 'LIST') return `[${typeText(type.ofType)}]`;
  return type.name;
};
const named = (type) => (type.ofType ? named(type.ofType) : type.name);

// An operation to begin with: all arguments that are needed, and the plain fields of the result.
function example(kind, field, types) {
  const needed = field.args.filter((argument) => argument.type.kind === 'NON_NULL' && argument.defaultValue === null);
  const declared = needed.map((argument) => `$${argument.name}: ${typeText(argument.type)}`).join(', ');
  const passed = needed.map((argument) => `${argument.name}: $${argument.name}`).join(', ');
  const result = types.get(named(field.type));
  const leaves = (result?.fields ?? []).filter((inner) => {
    const kindOf = types.get(named(inner.type))?.kind;
    return (kindOf === 'SCALAR' || kindOf === 'ENUM') && inner.args.every((argument) => argument.type.kind !== 'NON_NULL');
  });
  const selected = result?.fields ? ` {\n    ${(leaves.length ? leaves.map((leaf) => leaf.name) : ['__typename']).join('\n    ')}\n  }` : '';
  query.value = `${kind}${declared && ` (${declared})`} {\n  ${field.name}${passed && `(${passed})`}${selected}\n}\n`;
  variables.value = JSON.stringify(Object.fromEntries(needed.map((argument) => [argument.name, null])), null, 2);
}

async function listFields() {
  const list = $('schema');
  list.replaceChildren();
  const { data, errors } = await post(INTROSPECTION, {});
  if (!data?.__schema) {
    list.textContent = errors?.[0]?.message ?? 'The schema cannot be read.';
    return;
  }
  const types = new Map(data.__schema.types.map((type) => [type.name, type]));
  for (const kind of ROOTS) {
    const root = types.get(data.__schema[`${kind}Type`]?.name);
    if (!root) continue;
    const heading = document.createElement('h3');
    heading.textContent = kind;
    list.append(heading);
    for (const field of root.fields) {
      const button = document.createElement('button');
      const given = field.args.map((argument) => `${argument.name}: ${typeText(argument.type)}`).join(', ');
      button.textContent = `${field.name}${given && `(${given})`}: ${typeText(field.type)}`;
      button.onclick = () => example(kind, field, types);
      list.append(button);
      if (query.value === '' && kind === 'query') example(kind, field, types);
    }
  }
}

$('run').onclick = run;
$('stop').onclick = stop;
key.onchange = listFields;
document.addEventListener('keydown', (event) => {
  if (event.key === 'Enter' && (event.ctrlKey || event.metaKey)) run();
});
key.value = (await (await fetch('/config.json')).json()).apiKey;
await listFields();
