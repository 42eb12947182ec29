//! Buckets as stores: S3 and what speaks like it, Google Cloud Storage, Azure.
//!
//! ```text
//! s3://bucket/folder?endpoint=https://minio.local:9000&region=eu-1     gs://bucket/folder     az://container/folder
//! ```
//!
//! Credentials come from the environment (`AWS_…`, `GOOGLE_…`, `AZURE_…`), from a file with the same names, or from the machine's role. They never
//! stand in the URL.
//!
//! A write asks the bucket to refuse a name that is there (`If-None-Match: *`). A file that is too large for one request is uploaded in parts, and the
//! name is looked up before: two shippers that upload such files at the same moment are then told apart by the next delivery only.

use super::{Body, FileName, Listed, Put, Store};
use crate::{Error, Result};
use futures_util::{StreamExt, TryStreamExt};
use litefoot_ltx::{Level, name};
use object_store::path::Path as ObjectPath;
use object_store::{
    Attribute, Attributes, ClientOptions, GetOptions, GetRange, ObjectStore, ObjectStoreExt, PutMode,
    PutMultipartOptions, PutOptions, PutPayload, RetryConfig,
};
use std::io::Read;
use std::ops::Range;
use std::path::Path;
use std::time::Duration;
use tokio::runtime::Runtime;
use url::Url;

/// Largest file of one request, and the size of the parts of larger ones.
const SINGLE_BYTES: u64 = 64 << 20;
const PART_BYTES: u64 = 16 << 20;
/// Requests at the same time.
const PARALLEL: usize = 16;
/// What is tried again below the service, which has a back-off of its own.
const RETRIES: usize = 2;
const RETRY_TIMEOUT: Duration = Duration::from_secs(20);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// The time of a whole request: a part must fit through a slow link.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(300);
/// The name under which Litestream looks for the time of a file.
const TIMESTAMP: &str = "litestream-timestamp";

/// Names of the environment, and what they begin with.
const FAMILIES: [&str; 3] = ["AWS_", "GOOGLE_", "AZURE_"];

/// A store in a bucket.
pub struct Bucket {
    store: Box<dyn ObjectStore>,
    folder: ObjectPath,
    place: String,
    runtime: Runtime,
}

impl Bucket {
    /// The bucket of a URL.
    pub fn open(url: &str, credentials: Option<&Path>) -> Result<Bucket> {
        let place = url.split('?').next().unwrap_or_default().to_owned();
        let refused = |why: String| Error::Refused { place: place.clone(), why };
        let mut parsed = Url::parse(url).map_err(|error| refused(error.to_string()))?;
        let mut options = Vec::new();
        for (key, value) in std::env::vars().filter(|(key, _)| is_option(key)) {
            options.push((key.to_ascii_lowercase(), value));
        }
        if let Some(path) = credentials {
            options.extend(read_credentials(path)?);
        }
        options.extend(from_query(&parsed).map_err(refused)?);
        parsed.set_query(None);
        let (store, folder) = build(&parsed, options).map_err(|error| refused(error.to_string()))?;
        Bucket::new(store, folder, place)
    }

    fn new(store: Box<dyn ObjectStore>, folder: ObjectPath, place: String) -> Result<Bucket> {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
        let runtime = runtime.map_err(|error| Error::local(Path::new("a thread"), error))?;
        Ok(Bucket { store, folder, place, runtime })
    }

    fn path(&self, name: FileName) -> ObjectPath {
        ObjectPath::from_iter(self.folder.parts().chain(ObjectPath::from(name.to_string()).parts()))
    }

    fn fail(&self, error: object_store::Error) -> Error {
        use object_store::Error as E;
        let place = self.place.clone();
        match error {
            E::Unauthenticated { .. } | E::PermissionDenied { .. } => Error::Refused {
                place,
                why: "the credentials are missing or refused; set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or their like, \
                      or pass --credentials FILE"
                    .into(),
            },
            E::NotFound { .. } => Error::Refused { place, why: "there is no such bucket; make it first".into() },
            E::NotSupported { .. } | E::NotImplemented { .. } | E::UnknownConfigurationKey { .. } => {
                Error::Refused { place, why: error.to_string() }
            }
            other => Error::Unreachable { place, why: innermost(&other) },
        }
    }

    async fn put_single(&self, path: &ObjectPath, body: &Body, attributes: Attributes) -> Result<Put> {
        let payload = PutPayload::from(body.bytes()?);
        let options = PutOptions { mode: PutMode::Create, attributes, ..PutOptions::default() };
        match self.store.put_opts(path, payload, options).await {
            Ok(_) => Ok(Put::Created),
            Err(object_store::Error::AlreadyExists { .. } | object_store::Error::Precondition { .. }) => {
                Ok(Put::Exists)
            }
            Err(error) => Err(self.fail(error)),
        }
    }

    async fn put_in_parts(&self, path: &ObjectPath, body: &Body, attributes: Attributes) -> Result<Put> {
        match self.store.head(path).await {
            Ok(_) => return Ok(Put::Exists),
            Err(object_store::Error::NotFound { .. }) => {}
            Err(error) => return Err(self.fail(error)),
        }
        let options = PutMultipartOptions { attributes, ..PutMultipartOptions::default() };
        let mut upload =
            self.store.put_multipart_opts(path, options).await.map_err(|error| self.fail(error))?;
        let mut reader = body.reader()?;
        loop {
            let mut part = Vec::with_capacity(PART_BYTES as usize);
            let read = (&mut reader).take(PART_BYTES).read_to_end(&mut part);
            read.map_err(|error| Error::local(Path::new("a file on its way"), error))?;
            if part.is_empty() {
                break;
            }
            if let Err(error) = upload.put_part(part.into()).await {
                // What cannot be taken back either is the bucket's to remove, by its rules.
                let _ = upload.abort().await;
                return Err(self.fail(error));
            }
        }
        upload.complete().await.map_err(|error| self.fail(error))?;
        Ok(Put::Created)
    }
}

impl Store for Bucket {
    fn place(&self) -> &str {
        &self.place
    }

    fn list(&self, level: Level) -> Result<Vec<Listed>> {
        let folder =
            ObjectPath::from_iter(self.folder.parts().chain(ObjectPath::from(level.folder()).parts()));
        let found = self.runtime.block_on(self.store.list(Some(&folder)).try_collect::<Vec<_>>());
        let mut files = Vec::new();
        for object in found.map_err(|error| self.fail(error))? {
            if let Some((min, max)) = object.location.filename().and_then(name::parse_file_name) {
                files.push(Listed { name: FileName { level, min, max }, bytes: object.size });
            }
        }
        files.sort_unstable();
        Ok(files)
    }

    fn put_new(&self, name: FileName, body: &Body, timestamp_ms: u64) -> Result<Put> {
        let path = self.path(name);
        let mut attributes = Attributes::new();
        attributes.insert(Attribute::Metadata(TIMESTAMP.into()), crate::time::rfc3339(timestamp_ms).into());
        self.runtime.block_on(async {
            match body.len() {
                ..=SINGLE_BYTES => self.put_single(&path, body, attributes).await,
                _ => self.put_in_parts(&path, body, attributes).await,
            }
        })
    }

    fn get(&self, name: FileName, range: Range<u64>) -> Result<Option<Vec<u8>>> {
        if range.is_empty() {
            return Ok(Some(Vec::new()));
        }
        let options = GetOptions { range: Some(GetRange::Bounded(range)), ..GetOptions::default() };
        let got = self.runtime.block_on(async {
            let answer = self.store.get_opts(&self.path(name), options).await?;
            answer.bytes().await
        });
        match got {
            Ok(bytes) => Ok(Some(bytes.into())),
            Err(object_store::Error::NotFound { .. }) => Ok(None),
            Err(error) => Err(self.fail(error)),
        }
    }

    fn delete(&self, names: &[FileName]) -> Result<()> {
        let paths: Vec<_> = names.iter().map(|name| Ok(self.path(*name))).collect();
        self.runtime.block_on(async {
            let mut deleted = self.store.delete_stream(futures_util::stream::iter(paths).boxed());
            while let Some(outcome) = deleted.next().await {
                match outcome {
                    Ok(_) | Err(object_store::Error::NotFound { .. }) => {}
                    Err(error) => return Err(self.fail(error)),
                }
            }
            Ok(())
        })
    }

    fn parallel(&self) -> usize {
        PARALLEL
    }
}

/// The store of a URL.
fn build(
    url: &Url,
    options: Vec<(String, String)>,
) -> object_store::Result<(Box<dyn ObjectStore>, ObjectPath)> {
    let retry = RetryConfig { max_retries: RETRIES, retry_timeout: RETRY_TIMEOUT, ..RetryConfig::default() };
    let is_plain = options.iter().any(|(key, value)| key == "aws_allow_http" && value == "true");
    let client = ClientOptions::new()
        .with_timeout(REQUEST_TIMEOUT)
        .with_connect_timeout(CONNECT_TIMEOUT)
        .with_allow_http(is_plain);
    let folder = ObjectPath::parse(url.path().trim_matches('/'))?;
    // The provider is one for the process: somebody may have installed it already.
    let _ = rustls::crypto::ring::default_provider().install_default();
    macro_rules! built {
        ($builder:ty) => {{
            let mut builder =
                <$builder>::new().with_url(url.as_str()).with_retry(retry).with_client_options(client);
            for (key, value) in options {
                if let Ok(key) = key.parse() {
                    builder = builder.with_config(key, value);
                }
            }
            Box::new(builder.build()?) as Box<dyn ObjectStore>
        }};
    }
    let store = match url.scheme() {
        "s3" | "s3a" => built!(object_store::aws::AmazonS3Builder),
        "gs" => built!(object_store::gcp::GoogleCloudStorageBuilder),
        _ => built!(object_store::azure::MicrosoftAzureBuilder),
    };
    Ok((store, folder))
}

/// True for a variable that says how a bucket is reached.
fn is_option(key: &str) -> bool {
    FAMILIES.iter().any(|family| key.to_ascii_uppercase().starts_with(family))
}

/// Options that may stand in a URL: none of them is a secret.
fn from_query(url: &Url) -> std::result::Result<Vec<(String, String)>, String> {
    let mut options = Vec::new();
    for (key, value) in url.query_pairs() {
        match &*key {
            "endpoint" => {
                let value =
                    if value.contains("://") { value.into_owned() } else { format!("http://{value}") };
                if value.starts_with("http://") {
                    options.push(("aws_allow_http".into(), "true".into()));
                }
                options.push(("aws_endpoint".into(), value));
            }
            "region" => options.push(("aws_region".into(), value.into_owned())),
            _ => return Err(format!("{key} is no option of a URL; there are endpoint and region")),
        }
    }
    Ok(options)
}

/// Reads a file of `KEY=value` lines. Others must not be able to read it.
fn read_credentials(path: &Path) -> Result<Vec<(String, String)>> {
    use std::os::unix::fs::PermissionsExt;
    let fail = |error: std::io::Error| Error::local(path, error);
    let mode = std::fs::metadata(path).map_err(fail)?.permissions().mode();
    if mode & 0o077 != 0 {
        return Err(Error::local(path, "others can read these credentials; chmod 600 it first"));
    }
    let text = std::fs::read_to_string(path).map_err(fail)?;
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines
        .map(|line| match line.split_once('=') {
            Some((key, value)) if is_option(key.trim()) => {
                Ok((key.trim().to_ascii_lowercase(), value.trim().trim_matches('"').to_owned()))
            }
            // The line is not shown: it may be a secret.
            _ => Err(Error::local(path, "has a line that is not AWS_…=, GOOGLE_…= or AZURE_…=")),
        })
        .collect()
}

/// The first cause of an error: what is around it repeats the URL.
fn innermost(error: &dyn std::error::Error) -> String {
    let mut inner = error;
    while let Some(source) = inner.source() {
        inner = source;
    }
    inner.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use litefoot_ltx::TxId;
    use std::io::Write;

    #[test]
    fn a_bucket_behaves_as_a_directory_does() {
        let memory = Box::new(object_store::memory::InMemory::new());
        let store = Bucket::new(memory, ObjectPath::from("a/folder"), "memory://a/folder".into()).unwrap();
        let name =
            |number| FileName { level: Level::SHIPMENTS, min: TxId::new(number), max: TxId::new(number) };
        let body = |len: usize| {
            let mut body = Body::new(&std::env::temp_dir());
            body.write_all(&vec![7; len]).unwrap();
            body
        };
        for (number, len) in [(2, 10), (1, SINGLE_BYTES as usize + 5)] {
            assert_eq!(store.put_new(name(number), &body(len), 1000).unwrap(), Put::Created);
            assert_eq!(store.put_new(name(number), &body(3), 1000).unwrap(), Put::Exists);
        }
        let listed = store.list(Level::SHIPMENTS).unwrap();
        assert_eq!(
            listed.iter().map(|file| (file.name, file.bytes)).collect::<Vec<_>>(),
            [(name(1), SINGLE_BYTES + 5), (name(2), 10)]
        );
        assert_eq!(store.get(name(2), 8..99).unwrap(), Some(vec![7; 2]));
        assert_eq!(store.get(name(3), 0..5).unwrap(), None);
        store.delete(&[name(1), name(3)]).unwrap();
        assert_eq!(store.list(Level::SHIPMENTS).unwrap().len(), 1);
        assert_eq!(store.list(Level::SNAPSHOTS).unwrap(), []);
    }

    #[test]
    fn a_url_has_what_is_no_secret() {
        let options = |query| from_query(&Url::parse(&format!("s3://bucket/x?{query}")).unwrap());
        assert_eq!(options("region=eu-1").unwrap(), [("aws_region".into(), "eu-1".into())]);
        assert_eq!(options("endpoint=localhost:9000").unwrap()[1].1, "http://localhost:9000");
        assert_eq!(options("endpoint=https://x:1").unwrap().len(), 1);
        assert!(options("aws_secret_access_key=x").is_err());
    }

    #[test]
    fn credentials_are_read_by_nobody_else_and_never_shown() {
        use std::os::unix::fs::PermissionsExt;
        let file = tempfile::NamedTempFile::new().unwrap();
        let write = |text: &str, mode| {
            std::fs::write(file.path(), text).unwrap();
            std::fs::set_permissions(file.path(), std::fs::Permissions::from_mode(mode)).unwrap();
            read_credentials(file.path())
        };
        assert_eq!(
            write("# mine\nAWS_ACCESS_KEY_ID = a\n\naws_secret_access_key=\"b=c\"\n", 0o600).unwrap().len(),
            2
        );
        assert!(write("AWS_ACCESS_KEY_ID=a", 0o644).is_err());
        let error = write("password=hush", 0o600).unwrap_err().to_string();
        assert!(!error.contains("hush"));
    }
}
