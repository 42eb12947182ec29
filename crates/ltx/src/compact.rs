//! Several files that follow one another become one.

use crate::{Decoder, Encoder, Error, Header, Result, Trailer};
use std::io::{Read, Write};

/// One of the files, with the page that comes next.
struct Input<R> {
    decoder: Decoder<R>,
    page: Option<u32>,
    data: Vec<u8>,
}

impl<R: Read> Input<R> {
    fn advance(&mut self) -> Result<()> {
        self.page = self.decoder.page(&mut self.data)?;
        Ok(())
    }
}

/// Merges files, of which each goes on where the one before ended, or overlaps it. Answers the header and the trailer of the result.
///
/// An error may come at the end: what was written until then is worth nothing. Where one file does not track the checksum of the database,
/// the result does not either, unless it is the last one that does.
pub fn compact<R: Read, W: Write>(inputs: Vec<R>, to: W) -> Result<(W, Header, Trailer)> {
    let decoders = inputs.into_iter().map(Decoder::new).collect::<Result<Vec<_>>>()?;
    let header = merged(decoders.iter().map(Decoder::header))?;
    let size = header.page_size as usize;
    let mut inputs: Vec<Input<R>> =
        decoders.into_iter().map(|decoder| Input { decoder, page: None, data: vec![0; size] }).collect();
    inputs.iter_mut().try_for_each(Input::advance)?;
    let mut encoder = Encoder::new(to, header.clone())?;
    while let Some(page) = inputs.iter().filter_map(|input| input.page).min() {
        // The last file that has the page has its newest version.
        let newest = inputs.iter().rposition(|input| input.page == Some(page));
        if let Some(newest) = newest.filter(|_| page <= header.pages) {
            encoder.page(page, &inputs[newest].data)?;
        }
        inputs.iter_mut().filter(|input| input.page == Some(page)).try_for_each(Input::advance)?;
    }
    let trailers = inputs.into_iter().map(|input| input.decoder.finish()).collect::<Result<Vec<_>>>()?;
    let after = trailers.last().map_or(crate::Checksum::NONE, |last| last.after);
    let (to, trailer) = encoder.finish(if header.tracked { after } else { crate::Checksum::NONE })?;
    Ok((to, header, trailer))
}

/// The header of files that become one.
fn merged<'a>(headers: impl Iterator<Item = &'a Header>) -> Result<Header> {
    let headers: Vec<&Header> = headers.collect();
    let [Some(first), Some(last)] = [headers.first(), headers.last()] else {
        return Err(Error::Refused("there is no file"));
    };
    for pair in headers.windows(2) {
        if pair[0].page_size != pair[1].page_size {
            return Err(Error::Refused("files with pages of several sizes"));
        }
        if pair[1].min > pair[0].max.next() || pair[1].max <= pair[0].max {
            return Err(Error::Refused("files that do not follow one another"));
        }
    }
    let tracked = last.tracked && (first.is_snapshot() || first.tracked);
    Ok(Header {
        tracked,
        page_size: first.page_size,
        pages: last.pages,
        min: first.min,
        max: last.max,
        timestamp_ms: last.timestamp_ms,
        before: if tracked { first.before } else { crate::Checksum::NONE },
        after: if tracked { last.after } else { crate::Checksum::NONE },
        wal: crate::header::Wal::default(),
        node: last.node,
    })
}
