// Arguments: the port, the version (1.2 or 1.3), the authority's certificate, the client's certificate and key, the body.
const { createHash } = require('node:crypto');
const { readFileSync } = require('node:fs');
const https = require('node:https');

const [port, version, authority, certificate, key, body] = process.argv.slice(2);
const settings = {
  host: '127.0.0.1',
  port: Number(port),
  servername: 'localhost',
  ca: readFileSync(authority),
  cert: readFileSync(certificate),
  key: readFileSync(key),
  minVersion: `TLSv${version}`,
  maxVersion: `TLSv${version}`,
  agent: new https.Agent({ keepAlive: true, maxSockets: 1 }),
};

function ask(method, path, body) {
  return new Promise((resolve, reject) => {
    const request = https.request({ ...settings, method, path }, (response) => {
      const parts = [];
      response.on('data', (part) => parts.push(part));
      response.on('end', () => resolve(Buffer.concat(parts)));
    });
    request.setTimeout(30000, () => request.destroy(new Error('no answer in time')));
    request.on('error', reject);
    request.end(body);
  });
}

(async () => {
  console.log(String(await ask('GET', '/tell')));
  console.log(createHash('sha256').update(await ask('GET', '/large')).digest('hex'));
  console.log(String(await ask('POST', '/echo', body)));
  console.log(String(await ask('GET', '/tell')));
  // This closes the connection; the agent keeps the session.
  settings.agent.destroy();
  console.log(String(await ask('GET', '/tell')));
  settings.agent.destroy();
})();
