//! Buckets as stores: S3 and what speaks like it, Google Cloud Storage, Azure.
//!
//! ```text
//! s3://bucket/folder?endpoint=https://minio.local:9000&region=eu-1     gs://bucket/folder     az://container/folder
//! ```
//!
//! Credentials come from the environment (`AWS_…`, `GOOGLE_…`, `AZURE_…`), from a file with the same names, or from the machine's role. They never
//! stand in the URL.
//!
//! Files are where Litestream looks for them: in `folder/0009/` with S3, in `folder/ltx/9/` elsewhere.
//!
//! A write asks the bucket to refuse a name that is there (`If-None-Match: *`). A file that is too large for one request is uploaded in parts, and the
//! name is looked up before: two shippers that upload such files at the same moment are then told apart by the next delivery only.

mod answer;

use super::{Body, FileName, Listed, Put, Store};
use crate::{Error, Result, credentials};
use futures_util::{StreamExt, TryStreamExt};
use litefoot_ltx::{Level, name};
use object_store::path::Path as ObjectPath;
use object_store::{
    Attribute, Attributes, ClientOptions, GetOptions, GetRange, ObjectStore, ObjectStoreExt, PutMode,
    PutMultipartOptions, PutOptions, PutPayload, RetryConfig,
};
use std::io::{Read, Write};
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
/// The time in which a server that has the request must begin to answer, and go on.
const READ_TIMEOUT: Duration = Duration::from_secs(30);

/// How Litestream names things in a bucket.
#[derive(Clone, Copy)]
struct Layout {
    /// The folder of a level, below that of the database.
    folder: fn(Level) -> String,
    /// The name under which the time of a file stands.
    timestamp: &'static str,
}

impl Layout {
    const S3: Layout =
        Layout { folder: |level| format!("{:04x}", level.get()), timestamp: "litestream-timestamp" };
    const GOOGLE: Layout = Layout { folder: Level::folder, timestamp: "litestream-timestamp" };
    /// Names of metadata are those of variables there.
    const AZURE: Layout = Layout { folder: Level::folder, timestamp: "litestreamtimestamp" };
}

/// The file by which a server shows that it refuses a name that is there.
const FENCE: &str = "litefoot-fence";
const FENCE_TEXT: &[u8] = b"litefoot ship wrote this file twice, and the second time it has to be refused.\n";

/// Names of the environment, and what they begin with.
const FAMILIES: [&str; 3] = ["AWS_", "GOOGLE_", "AZURE_"];

/// A store in a bucket.
pub struct Bucket {
    store: Box<dyn ObjectStore>,
    folder: ObjectPath,
    layout: Layout,
    place: String,
    /// False where neither the environment nor a file has a key: the machine's role is asked for.
    has_key: bool,
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
            let lines = credentials::read(path)?.into_iter().filter(|(key, _)| is_option(key));
            options.extend(lines.map(|(key, value)| (key.to_ascii_lowercase(), value)));
        }
        options.extend(from_query(&parsed).map_err(refused)?);
        parsed.set_query(None);
        let has_key = options.iter().any(|(key, _)| is_key(key));
        let (store, layout) = build(&parsed, options).map_err(|error| refused(error.to_string()))?;
        let folder =
            ObjectPath::parse(parsed.path().trim_matches('/')).map_err(|error| refused(error.to_string()))?;
        if folder.is_root() {
            return Err(refused("name a folder in it, one for each database".to_owned()));
        }
        Ok(Bucket { has_key, ..Bucket::new(store, folder, layout, place)? })
    }

    fn new(store: Box<dyn ObjectStore>, folder: ObjectPath, layout: Layout, place: String) -> Result<Bucket> {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
        let runtime = runtime.map_err(|error| Error::local(Path::new("a thread"), error))?;
        Ok(Bucket { store, folder, layout, place, has_key: true, runtime })
    }

    /// A path below the folder of the database.
    fn below(&self, path: &str) -> ObjectPath {
        ObjectPath::from_iter(self.folder.parts().chain(ObjectPath::from(path).parts()))
    }

    fn path(&self, name: FileName) -> ObjectPath {
        let file = name::file_name(name.min, name.max);
        self.below(&format!("{}/{file}", (self.layout.folder)(name.level)))
    }

    fn fail(&self, error: object_store::Error) -> Error {
        answer::error(&self.place, &error, self.has_key)
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
        let folder = self.below(&(self.layout.folder)(level));
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
        attributes.insert(
            Attribute::Metadata(self.layout.timestamp.into()),
            crate::time::rfc3339(timestamp_ms).into(),
        );
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

    fn check_fence(&self) -> Result<()> {
        let path = self.below(FENCE);
        let mut body = Body::new(&std::env::temp_dir());
        body.write_all(FENCE_TEXT).map_err(|error| Error::local(Path::new("memory"), error))?;
        let put = || self.runtime.block_on(self.put_single(&path, &body, Attributes::new()));
        put()?;
        match put()? {
            Put::Exists => Ok(()),
            Put::Created => Err(Error::Refused {
                place: self.place.clone(),
                why: "this server writes over a file that is there, though it was asked not to (If-None-Match): two shippers would \
                      destroy each other's backup. Use a server that refuses, or a newer version of it"
                    .into(),
            }),
        }
    }

    fn parallel(&self) -> usize {
        PARALLEL
    }
}

/// The store of a URL.
fn build(url: &Url, options: Vec<(String, String)>) -> object_store::Result<(Box<dyn ObjectStore>, Layout)> {
    let retry = RetryConfig { max_retries: RETRIES, retry_timeout: RETRY_TIMEOUT, ..RetryConfig::default() };
    let is_plain = options.iter().any(|(key, value)| key == "aws_allow_http" && value == "true");
    let client = ClientOptions::new()
        .with_timeout(REQUEST_TIMEOUT)
        .with_read_timeout(READ_TIMEOUT)
        .with_connect_timeout(CONNECT_TIMEOUT)
        .with_allow_http(is_plain);
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
    Ok(match url.scheme() {
        "s3" => (built!(object_store::aws::AmazonS3Builder), Layout::S3),
        "gs" => (built!(object_store::gcp::GoogleCloudStorageBuilder), Layout::GOOGLE),
        _ => (built!(object_store::azure::MicrosoftAzureBuilder), Layout::AZURE),
    })
}

/// True for a variable that says how a bucket is reached.
fn is_option(key: &str) -> bool {
    FAMILIES.iter().any(|family| key.to_ascii_uppercase().starts_with(family))
}

/// True for an option that says who asks.
fn is_key(key: &str) -> bool {
    let names = [
        "access_key",
        "token",
        "account_key",
        "service_account",
        "credentials",
        "client_id",
        "sas_key",
        "skip_signature",
    ];
    names.iter().any(|name| key.contains(name))
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

#[cfg(test)]
mod tests {
    use super::*;
    use litefoot_ltx::TxId;

    #[test]
    fn a_bucket_behaves_as_a_directory_does() {
        let memory = Box::new(object_store::memory::InMemory::new());
        let store = Bucket::new(memory, ObjectPath::from("a/folder"), Layout::S3, "memory://a/folder".into())
            .unwrap();
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
}
