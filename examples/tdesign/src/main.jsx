import { createRoot } from 'react-dom/client';

import 'tdesign-react/es/style/index.css';
import '@tdesign-react/chat/es/style/index.js';
import './page.css';

import { App } from './App.jsx';

createRoot(document.getElementById('root')).render(<App />);
