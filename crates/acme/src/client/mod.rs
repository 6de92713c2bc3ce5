//! HTTP requests to a CA.
//!
//! | module | holds |
//! |---|---|
//! | `http` | one request over one connection |
//! | `trust` | whether the CA's own server is trusted |
//! | `notes` | what responses say beside what the library reads |

mod http;
mod notes;
mod trust;

use std::pin::Pin;
use std::sync::Arc;

use ::http::Request;
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use instant_acme::{BodyWrapper, BytesResponse, Error, HttpClient};

use crate::host::Host;
use crate::settings::IssuerSettings;

pub(crate) use notes::Notes;

/// The HTTP client of one conversation with a CA, as the library takes it.
#[derive(Clone)]
pub(crate) struct Client {
    host: Arc<dyn Host>,
    settings: Arc<IssuerSettings>,
    notes: Arc<Notes>,
}

impl Client {
    pub(crate) fn new(host: Arc<dyn Host>, settings: Arc<IssuerSettings>) -> Client {
        Client { host, settings, notes: Arc::default() }
    }

    /// Notes from the responses so far.
    pub(crate) fn notes(&self) -> &Notes {
        &self.notes
    }
}

impl HttpClient for Client {
    fn request(
        &self,
        request: Request<BodyWrapper<Bytes>>,
    ) -> Pin<Box<dyn Future<Output = Result<BytesResponse, Error>> + Send>> {
        let client = self.clone();
        Box::pin(async move {
            let (head, body) = request.into_parts();
            let Ok(body) = body.collect().await;
            let request = Request::from_parts(head, body.to_bytes());
            let response = http::request(&client.host, &client.settings, request).await;
            let mut response = response.map_err(|error| Error::Other(Box::new(error)))?;
            notes::bound_retry_after(response.headers_mut());
            client.notes.take(&response);
            Ok(BytesResponse::from(response.map(Full::new)))
        })
    }
}
