//! The HTTP client of an object store: with bounds on the time and the length of answers, which a broken or hostile store
//! does not choose.

use super::error::TOO_LONG;
use http_body_util::{BodyExt, Limited};
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpResponse,
    HttpResponseBody, HttpService,
};
use object_store::{ClientConfigKey, ClientOptions};
use reqwest::redirect::Policy;
use std::time::Duration;

/// How long to wait for a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Most bytes of an answer: parts of objects have fewer, and so have pages of lists.
const MAX_ANSWER_BYTES: usize = 16 << 20;

/// How long an answer may take.
#[derive(Debug, Clone, Copy)]
pub(super) enum Patience {
    /// Until the next bytes of it come.
    Silence(Duration),
    /// In all, with the time to send the request.
    Whole(Duration),
}

impl HttpConnector for Patience {
    fn connect(&self, options: &ClientOptions) -> object_store::Result<HttpClient> {
        let may_be_open = options.get_config_value(&ClientConfigKey::AllowHttp);
        let client = reqwest::Client::builder()
            .user_agent(concat!("linecard/", env!("CARGO_PKG_VERSION")))
            .connect_timeout(CONNECT_TIMEOUT)
            .https_only(may_be_open.as_deref() != Some("true"))
            // A signature is for one host.
            .redirect(Policy::none());
        let client = match *self {
            Self::Silence(time) => client.read_timeout(time),
            Self::Whole(time) => client.timeout(time),
        };
        let built = client.build();
        let client = built.map_err(|error| object_store::Error::Generic {
            store: "S3",
            source: Box::new(error),
        })?;
        Ok(HttpClient::new(Bounded(HttpClient::new(client))))
    }
}

/// A client whose answers have a bound.
#[derive(Debug)]
struct Bounded(HttpClient);

#[async_trait::async_trait]
impl HttpService for Bounded {
    async fn call(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let (head, body) = self.0.execute(request).await?.into_parts();
        let body = Limited::new(body, MAX_ANSWER_BYTES).map_err(|error| {
            match error.downcast::<HttpError>() {
                Ok(error) => *error,
                Err(_) => HttpError::new_boxed(HttpErrorKind::Decode, TOO_LONG.into()),
            }
        });
        Ok(HttpResponse::from_parts(head, HttpResponseBody::new(body)))
    }
}
