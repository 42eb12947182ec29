//! Methods that a file or medium around another one passes on unchanged.

/// Makes methods of [`File`](crate::file::File) or [`Medium`](crate::file::Medium) that call the same method of a
/// field. A wrapper then writes out only the methods that it changes, and names those that it passes on. All others
/// keep the trait's own answer.
///
/// ```
/// use litefoot_storage::file::{File, FileKind, Medium, OpenMode, Result};
/// use litefoot_storage::os::OsMedium;
/// use litefoot_storage::pass_on;
/// use std::path::Path;
/// use std::sync::Arc;
///
/// struct Shouting(OsMedium);
///
/// impl Medium for Shouting {
///     pass_on!(0: open, rename, info, identity, list, sync_directory, absolute);
///
///     fn delete(&self, path: &Path) -> Result<()> {
///         eprintln!("GONE: {}", path.display());
///         self.0.delete(path)
///     }
/// }
/// ```
#[macro_export]
macro_rules! pass_on {
    ($field:tt: $($method:ident),+ $(,)?) => { $($crate::pass_on!(@$method $field);)+ };

    (@read_at $field:tt) => {
        fn read_at(&self, buf: &mut [u8], offset: u64) -> $crate::file::Result<usize> {
            self.$field.read_at(buf, offset)
        }
    };
    (@read_cached_at $field:tt) => {
        fn read_cached_at(
            &self,
            buf: &mut [u8],
            offset: u64,
        ) -> $crate::file::Result<::std::option::Option<usize>> {
            self.$field.read_cached_at(buf, offset)
        }
    };
    (@read_vectored_at $field:tt) => {
        fn read_vectored_at(
            &self,
            bufs: &mut [::std::io::IoSliceMut<'_>],
            offset: u64,
        ) -> $crate::file::Result<usize> {
            self.$field.read_vectored_at(bufs, offset)
        }
    };
    (@write_vectored_at $field:tt) => {
        fn write_vectored_at(
            &self,
            bufs: &[::std::io::IoSlice<'_>],
            offset: u64,
        ) -> $crate::file::Result<()> {
            self.$field.write_vectored_at(bufs, offset)
        }
    };
    (@write_durable_at $field:tt) => {
        fn write_durable_at(
            &self,
            bufs: &[::std::io::IoSlice<'_>],
            offset: u64,
        ) -> $crate::file::Result<()> {
            self.$field.write_durable_at(bufs, offset)
        }
    };
    (@sync $field:tt) => {
        fn sync(&self) -> $crate::file::Result<()> {
            self.$field.sync()
        }
    };
    (@stamp $field:tt) => {
        fn stamp(&self) -> $crate::file::Result<$crate::file::Stamp> {
            self.$field.stamp()
        }
    };
    (@set_stamp $field:tt) => {
        fn set_stamp(&self) -> $crate::file::Result<$crate::file::Stamp> {
            self.$field.set_stamp()
        }
    };
    (@start_writeback $field:tt) => {
        fn start_writeback(&self, offset: u64, len: u64) {
            self.$field.start_writeback(offset, len);
        }
    };
    (@read_ahead $field:tt) => {
        fn read_ahead(&self, offset: u64, len: u64) {
            self.$field.read_ahead(offset, len);
        }
    };
    (@len $field:tt) => {
        fn len(&self) -> $crate::file::Result<u64> {
            self.$field.len()
        }
    };
    (@is_empty $field:tt) => {
        fn is_empty(&self) -> $crate::file::Result<bool> {
            self.$field.is_empty()
        }
    };
    (@set_len $field:tt) => {
        fn set_len(&self, len: u64) -> $crate::file::Result<()> {
            self.$field.set_len(len)
        }
    };
    (@allocate $field:tt) => {
        fn allocate(&self, len: u64) -> $crate::file::Result<()> {
            self.$field.allocate(len)
        }
    };
    (@id $field:tt) => {
        fn id(&self) -> $crate::file::FileId {
            self.$field.id()
        }
    };
    (@birth $field:tt) => {
        fn birth(&self) -> $crate::file::Result<u64> {
            self.$field.birth()
        }
    };
    (@path $field:tt) => {
        fn path(&self) -> &::std::path::Path {
            self.$field.path()
        }
    };
    (@lock_range $field:tt) => {
        fn lock_range(
            &self,
            offset: u64,
            len: u64,
            lock: $crate::file::RangeLock,
        ) -> $crate::file::Result<bool> {
            self.$field.lock_range(offset, len, lock)
        }
    };
    (@is_locked $field:tt) => {
        fn is_locked(
            &self,
            offset: u64,
            len: u64,
            wanted: $crate::file::RangeLock,
        ) -> $crate::file::Result<bool> {
            self.$field.is_locked(offset, len, wanted)
        }
    };
    (@lock_holder $field:tt) => {
        fn lock_holder(&self, offset: u64, len: u64) -> Option<u32> {
            self.$field.lock_holder(offset, len)
        }
    };
    (@map_over $field:tt) => {
        unsafe fn map_over(
            &self,
            offset: u64,
            memory: ::std::ptr::NonNull<u8>,
            bytes: usize,
        ) -> $crate::file::Result<()> {
            // SAFETY: the caller's promise.
            unsafe { self.$field.map_over(offset, memory, bytes) }
        }
    };
    (@guarantees $field:tt) => {
        fn guarantees(&self) -> $crate::file::Guarantees {
            self.$field.guarantees()
        }
    };
    (@take_lease $field:tt) => {
        fn take_lease(&self, on_break: $crate::file::OnBreak) -> $crate::file::LeaseAnswer {
            self.$field.take_lease(on_break)
        }
    };
    (@release_lease $field:tt) => {
        fn release_lease(&self) {
            self.$field.release_lease();
        }
    };

    (@open $field:tt) => {
        fn open(
            &self,
            path: &::std::path::Path,
            kind: $crate::file::FileKind,
            mode: $crate::file::OpenMode,
        ) -> $crate::file::Result<::std::sync::Arc<dyn $crate::file::File>> {
            self.$field.open(path, kind, mode)
        }
    };
    (@open_nameless $field:tt) => {
        fn open_nameless(
            &self,
            directory: &::std::path::Path,
        ) -> Option<::std::sync::Arc<dyn $crate::file::File>> {
            self.$field.open_nameless(directory)
        }
    };
    (@delete $field:tt) => {
        fn delete(&self, path: &::std::path::Path) -> $crate::file::Result<()> {
            self.$field.delete(path)
        }
    };
    (@rename $field:tt) => {
        fn rename(&self, from: &::std::path::Path, to: &::std::path::Path) -> $crate::file::Result<()> {
            self.$field.rename(from, to)
        }
    };
    (@rename_new $field:tt) => {
        fn rename_new(
            &self,
            from: &::std::path::Path,
            to: &::std::path::Path,
        ) -> $crate::file::Result<()> {
            self.$field.rename_new(from, to)
        }
    };
    (@glance $field:tt) => {
        fn glance(
            &self,
            path: &::std::path::Path,
        ) -> $crate::file::Result<Option<($crate::file::FileId, u64)>> {
            self.$field.glance(path)
        }
    };
    (@info $field:tt) => {
        fn info(
            &self,
            path: &::std::path::Path,
        ) -> $crate::file::Result<Option<$crate::file::PathInfo>> {
            self.$field.info(path)
        }
    };
    (@identity $field:tt) => {
        fn identity(
            &self,
            path: &::std::path::Path,
        ) -> $crate::file::Result<Option<$crate::file::FileId>> {
            self.$field.identity(path)
        }
    };
    (@unlinked_identity $field:tt) => {
        fn unlinked_identity(
            &self,
            path: &::std::path::Path,
        ) -> $crate::file::Result<Option<$crate::file::FileId>> {
            self.$field.unlinked_identity(path)
        }
    };
    (@list $field:tt) => {
        fn list(&self, directory: &::std::path::Path) -> $crate::file::Result<Vec<::std::path::PathBuf>> {
            self.$field.list(directory)
        }
    };
    (@sync_directory $field:tt) => {
        fn sync_directory(&self, directory: &::std::path::Path) -> $crate::file::Result<()> {
            self.$field.sync_directory(directory)
        }
    };
    (@absolute $field:tt) => {
        fn absolute(&self, path: &::std::path::Path) -> $crate::file::Result<$crate::file::Resolved> {
            self.$field.absolute(path)
        }
    };
}
