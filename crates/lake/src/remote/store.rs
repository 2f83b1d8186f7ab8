//! From an address to the store that has it. Settings come from the environment, by the names that each store's own tools use.

use crate::{Address, Error, Result};
use object_store::{
    ObjectStore, ObjectStoreScheme, RetryConfig,
    aws::{AmazonS3Builder, AmazonS3ConfigKey},
    azure::MicrosoftAzureBuilder,
    gcp::GoogleCloudStorageBuilder,
};
use std::{sync::Arc, time::Duration};
use url::Url;

/// For how long a request is tried again: a store that nobody reaches is said soon.
const TRIED_FOR: Duration = Duration::from_secs(60);
const TRIES: usize = 5;

/// The store, and the lake's folder in it.
pub fn open(address: &Address) -> Result<(Arc<dyn ObjectStore>, String)> {
    let url = &address.lake;
    let (scheme, prefix) = parsed(address)?;
    // reqwest takes the one of the process; another part of it may have set it before.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let retry = RetryConfig {
        max_retries: TRIES,
        retry_timeout: TRIED_FOR,
        ..RetryConfig::default()
    };
    let store: object_store::Result<Arc<dyn ObjectStore>> = match scheme {
        ObjectStoreScheme::AmazonS3 => amazon(url)
            .with_retry(retry)
            .build()
            .map(|store| Arc::new(store) as _),
        ObjectStoreScheme::GoogleCloudStorage => GoogleCloudStorageBuilder::from_env()
            .with_url(url)
            .with_retry(retry)
            .build()
            .map(|store| Arc::new(store) as _),
        ObjectStoreScheme::MicrosoftAzure => MicrosoftAzureBuilder::from_env()
            .with_url(url)
            .with_retry(retry)
            .build()
            .map(|store| Arc::new(store) as _),
        _ => return Err(unknown(address)),
    };
    let store = store.map_err(|source| Error::Store {
        verb: "open",
        url: url.clone(),
        source: source.into(),
    })?;
    Ok((store, prefix))
}

/// What sets one lake apart from another of the same address: a bucket of this name may be on another server.
pub fn identity(address: &Address) -> Result<String> {
    let (scheme, _) = parsed(address)?;
    let endpoint = match scheme {
        ObjectStoreScheme::AmazonS3 => {
            amazon(&address.lake).get_config_value(&AmazonS3ConfigKey::Endpoint)
        }
        _ => None,
    };
    Ok(format!("{} {}", endpoint.unwrap_or_default(), address.lake))
}

fn amazon(url: &str) -> AmazonS3Builder {
    AmazonS3Builder::from_env().with_url(url)
}

fn parsed(address: &Address) -> Result<(ObjectStoreScheme, String)> {
    let url = &address.lake;
    let wrong = |why: String| Error::NotAnAddress(url.clone(), why);
    let parsed = Url::parse(url).map_err(|why| wrong(why.to_string()))?;
    // A web page, or a store's own page of a bucket.
    if parsed.scheme().starts_with("http") {
        return Err(unknown(address));
    }
    if parsed.host_str().is_none_or(str::is_empty) {
        return Err(wrong("it names no bucket".to_owned()));
    }
    let (scheme, path) = ObjectStoreScheme::parse(&parsed).map_err(|_| unknown(address))?;
    Ok((scheme, path.to_string()))
}

fn unknown(address: &Address) -> Error {
    let scheme = address.lake.split(':').next().unwrap_or_default();
    Error::NotAnAddress(address.lake.clone(), format!("unknown scheme {scheme}"))
}
