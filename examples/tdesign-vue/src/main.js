import { createApp } from 'vue';

import './page.css';
import App from './App.vue';

createApp(App).mount('#app');
