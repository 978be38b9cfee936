// The page by itself, without the frame of the console.
import { mount } from './duel.js';

await mount(document.getElementById('main'));
