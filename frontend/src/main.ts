// Owns starting the page: styles, colours, the app in its element.
import { mount } from 'svelte';

import App from './App.svelte';
import { readBoot } from './lib/boot';
import { followKeyboard } from './lib/keyboard';
import { prefs } from './lib/prefs.svelte';
import { language } from './lib/words';
import { theme } from './lib/theme.svelte';
import './styles/base.css';
import './styles/layout.css';
import './styles/markdown.css';
import './styles/code.css';
import './styles/steps.css';
import './styles/json.css';
import './styles/print.css';

theme.apply();
prefs.apply();
if (window.visualViewport) followKeyboard(window.visualViewport, document.documentElement.style);
document.documentElement.lang = language;
const target = document.getElementById('app')!;
const boot = readBoot();
const { shared } = boot;
if (shared === null) mount(App, { target, props: { boot } });
else void import('./Shared.svelte').then(({ default: Shared }) => mount(Shared, { target, props: { shared } }));
