// Owns starting the page: styles, colours, the app in its element.
import { mount } from 'svelte';

import App from './App.svelte';
import { readBoot } from './lib/boot';
import { prefs } from './lib/prefs.svelte';
import { language } from './lib/words';
import { theme } from './lib/theme.svelte';
import './styles/base.css';
import './styles/layout.css';
import './styles/markdown.css';
import './styles/code.css';
import './styles/steps.css';

theme.apply();
prefs.apply();
document.documentElement.lang = language;
mount(App, { target: document.getElementById('app')!, props: { boot: readBoot() } });
