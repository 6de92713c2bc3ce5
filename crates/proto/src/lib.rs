//! Sans-IO protocol code: HTTP/1 heads and bodies, URIs, dates, ranges.
