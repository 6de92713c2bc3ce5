//! The path of a request: listen, connection, head, route, phases, content, filters, write, finish.
