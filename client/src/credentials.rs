//! The API key that calls carry.

use std::fmt;
use std::sync::Arc;

use tonic::metadata::{Ascii, MetadataValue};
use tonic::service::Interceptor;
use tonic::service::interceptor::InterceptedService;
use tonic::transport::Channel;
use tonic::{Request, Status};

/// A connection whose calls carry the key, if there is one.
pub(crate) type Transport = InterceptedService<Channel, Credentials>;

/// Reason why a text cannot be an API key. Does not repeat the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the API key is empty or has characters that cannot be sent, expected one word of ASCII")]
pub struct ApiKeyError;

/// Credentials of a call. Behind a pointer, because errors name the endpoint, which has it.
#[derive(Clone, PartialEq, Eq, Default)]
pub(crate) struct Credentials(Option<Arc<MetadataValue<Ascii>>>);

impl Credentials {
    pub(crate) fn key(key: &str) -> Result<Self, ApiKeyError> {
        let key = key.trim();
        if key.is_empty() || !key.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(ApiKeyError);
        }
        let mut value: MetadataValue<Ascii> = format!("Bearer {key}").parse().map_err(|_| ApiKeyError)?;
        value.set_sensitive(true);
        Ok(Self(Some(Arc::new(value))))
    }
}

impl Interceptor for Credentials {
    fn call(&mut self, mut request: Request<()>) -> Result<Request<()>, Status> {
        if let Some(value) = &self.0 {
            request
                .metadata_mut()
                .insert("authorization", MetadataValue::clone(value));
        }
        Ok(request)
    }
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() {
            "an API key"
        } else {
            "no API key"
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_one_word_and_is_never_shown() {
        let key = Credentials::key(" omni_secret\n").unwrap();
        assert!(!format!("{key:?}").contains("secret"));
        for bad in ["", " ", "two words", "a\nb", "\u{1F511}"] {
            assert_eq!(Credentials::key(bad), Err(ApiKeyError), "{bad:?}");
        }
    }
}
