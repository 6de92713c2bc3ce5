"""Arguments: the port, the version (1.2 or 1.3), the authority's certificate, the client's certificate and key, the body."""
import hashlib
import http.client
import socket
import ssl
import sys

port, version, authority, certificate, key, body = sys.argv[1:]
context = ssl.create_default_context(cafile=authority)
context.load_cert_chain(certificate, key)
context.minimum_version = context.maximum_version = {"1.2": ssl.TLSVersion.TLSv1_2, "1.3": ssl.TLSVersion.TLSv1_3}[version]


def connect(session=None):
    connection = http.client.HTTPConnection("localhost", int(port))
    plain = socket.create_connection(("127.0.0.1", int(port)), timeout=30)
    connection.sock = context.wrap_socket(plain, server_hostname="localhost", session=session)
    return connection


def ask(connection, method, path, body=None):
    connection.request(method, path, body)
    response = connection.getresponse()
    assert response.status == 200, response.status
    return response.read()


first = connect()
print(ask(first, "GET", "/tell").decode())
print(hashlib.sha256(ask(first, "GET", "/large")).hexdigest())
print(ask(first, "POST", "/echo", body.encode()).decode())
print(ask(first, "GET", "/tell").decode())
session = first.sock.session
first.close()
print(ask(connect(session), "GET", "/tell").decode())
