// Two windows in one group.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { eventually, open, platform, prepare, startWith } from './support.mjs';

prepare();

async function window(name, at = platform) {
  const page = await open(at.url);
  await page.getByRole('link', { name: 'Mesh' }).click();
  await page.fill('#mesh-name', name);
  return page;
}

const state = (page, text) => page.locator('#mesh-state', { hasText: text }).waitFor();
const said = (page, node) => page.locator(`#mesh-values tr[data-node="${node}"] .mesh-said`).textContent().catch(() => '');

test('two windows see each other’s messages, and the group ends for both', async () => {
  const [teacher, pupil] = [await window('teacher'), await window('pupil')];
  await teacher.click('#mesh-host');
  await state(teacher, 'as teacher, its host');
  await eventually('the group in the list', async () => {
    await pupil.click('#mesh-find');
    return (await pupil.locator('.mesh-join').count()) > 0;
  });
  await pupil.locator('.mesh-join').first().click();
  await state(pupil, 'In teacher’s group as pupil.');
  // Values from before it joined are shown.
  await pupil.locator('#mesh-values tr[data-node="teacher"]', { hasText: 'temperature = 20' }).waitFor();

  await pupil.fill('#mesh-value', '77');
  await teacher.locator('#mesh-values tr[data-node="pupil"]', { hasText: '77' }).waitFor();
  assert.equal(await said(teacher, 'pupil'), 'temperature = 77');
  await teacher.fill('#mesh-event', 'start');
  await teacher.click('#mesh-fire');
  await pupil.locator('#mesh-log li', { hasText: 'teacher: start' }).waitFor();

  await teacher.click('#mesh-dissolve');
  await state(pupil, 'The group has ended (dissolved).');
  assert.deepEqual([...teacher.problems, ...pupil.problems], []);
});

test('a group without WebSocket polls', async () => {
  const [teacher, pupil] = [await window('teacher-2'), await window('pupil-2')];
  await teacher.check('#mesh-polling');
  await teacher.click('#mesh-host');
  await state(teacher, 'as teacher-2, its host');
  await eventually('the group in the list', async () => {
    await pupil.click('#mesh-find');
    return (await pupil.locator('.mesh-join').count()) > 0;
  });
  await pupil.locator('.mesh-join').first().click();
  await state(pupil, 'as pupil-2');
  await pupil.click('#mesh-fire');
  await teacher.locator('#mesh-log li', { hasText: 'pupil-2: hello' }).waitFor();
});

test('a group ends when its host disappears', async () => {
  const quick = await startWith({ HOST_HEARTBEAT_SECONDS: '2', MEMBER_HEARTBEAT_SECONDS: '2' });
  try {
    const [teacher, pupil] = [await window('teacher-3', quick), await window('pupil-3', quick)];
    await teacher.click('#mesh-host');
    await state(teacher, 'as teacher-3, its host');
    await eventually('the group in the list', async () => {
      await pupil.click('#mesh-find');
      return (await pupil.locator('.mesh-join').count()) > 0;
    });
    await pupil.locator('.mesh-join').first().click();
    await state(pupil, 'as pupil-3');
    await teacher.click('#mesh-drop');
    await state(pupil, 'The group has ended (GroupNotFound).');
    await pupil.click('#mesh-find');
    await pupil.locator('#mesh-groups', { hasText: 'No group in this domain.' }).waitFor();
  } finally {
    await quick.stop();
  }
});
