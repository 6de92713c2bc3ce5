// An HTTP server with what the tests ask for: server-sent events, an upgrade, uploads, downloads.
'use strict';
const crypto = require('crypto');
const fs = require('fs');
const http = require('http');

const server = http.createServer((request, response) => {
    const url = new URL(request.url, 'http://x');
    switch (url.pathname) {
        case '/tell':
            response.setHeader('X-Own', 'one');
            response.end(`${request.method} ${request.url} HTTP/${request.httpVersion} host=${request.headers.host} ` +
                `connection=${request.headers.connection} twice=${request.headers['x-twice']}`);
            break;
        case '/sum': {
            let length = 0;
            const hash = crypto.createHash('md5');
            request.on('data', (piece) => {
                length += piece.length;
                hash.update(piece);
            });
            request.on('end', () => response.end(`${length} ${hash.digest('hex')}`));
            break;
        }
        case '/long': {
            // Lines of 64 bytes, in chunks as large as the stream takes.
            const lines = Number(url.searchParams.get('lines'));
            let line = 0;
            const go = () => {
                while (line < lines) {
                    if (!response.write(String(line++).padStart(63, '0') + '\n')) {
                        response.once('drain', go);
                        return;
                    }
                }
                response.addTrailers({ 'X-Lines': String(line) });
                response.end();
            };
            response.writeHead(200, { Trailer: 'X-Lines' });
            go();
            break;
        }
        case '/events': {
            response.writeHead(200, { 'Content-Type': 'text/event-stream' });
            const folder = url.searchParams.get('folder');
            let n = 1;
            response.write(`data: ${n}\n\n`);
            const timer = setInterval(() => {
                // The next one comes when the test has seen this one.
                if (!fs.existsSync(`${folder}/seen${n}`)) return;
                n += 1;
                if (n > 3) {
                    clearInterval(timer);
                    response.end();
                } else {
                    response.write(`data: ${n}\n\n`);
                }
            }, 1);
            break;
        }
        case '/early':
            // An answer before the body was read.
            response.writeHead(413, { Connection: 'close' });
            response.end('too much');
            break;
        case '/hints':
            response.writeEarlyHints({ link: '</style.css>; rel=preload' });
            response.end('hinted');
            break;
        case '/die':
            response.writeHead(200, { 'Content-Length': 1000 });
            response.write('only this');
            setTimeout(() => request.socket.destroy(), 20);
            break;
        case '/gzip':
            response.setHeader('Content-Type', 'text/html');
            response.end('<p>text to pack</p>'.repeat(100));
            break;
        default:
            response.statusCode = 404;
            response.end('nothing here');
    }
});

// Every byte of an upgraded connection comes back in upper case.
server.on('upgrade', (request, socket, head) => {
    socket.write('HTTP/1.1 101 Switching Protocols\r\nUpgrade: shout\r\nConnection: Upgrade\r\n\r\n');
    const shout = (bytes) => socket.write(bytes.toString('latin1').toUpperCase(), 'latin1');
    if (head.length) shout(head);
    socket.on('data', shout);
    socket.on('end', () => socket.end());
    socket.on('error', () => {});
});

server.keepAliveTimeout = 60000;
server.listen(Number(process.argv[2]), '127.0.0.1');
