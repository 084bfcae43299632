//! Finding what ends or breaks a plain run of a JSON string, 64 bytes at a time.
//!
//! A block is classified once, without waiting for where the string before it
//! ended: the positions are then taken from the bits, so a short string costs a
//! shift and a bit count and no load that depends on the string before.
//! A block is always a `&[u8; 64]`, so no load depends on a length that came
//! from outside. Other architectures than x86-64 take the portable way.

#![allow(unsafe_code)]

const BLOCK: usize = 64;

/// So few bytes are faster one by one.
const TINY: usize = 8;

/// One bit for each byte of a block, the first byte lowest.
#[derive(Clone, Copy, Default)]
struct Masks {
    /// Quote, backslash or control character.
    special: u64,
    /// Not ASCII.
    high: u64,
}

#[cfg(target_arch = "x86_64")]
#[inline(always)]
#[allow(clippy::cast_sign_loss, clippy::cast_ptr_alignment)]
fn masks(block: &[u8; BLOCK]) -> Masks {
    use core::arch::x86_64::{
        __m128i, _mm_cmpeq_epi8, _mm_loadu_si128, _mm_min_epu8, _mm_movemask_epi8, _mm_or_si128,
        _mm_set1_epi8,
    };
    let mut masks = Masks::default();
    for i in 0..BLOCK / 16 {
        // SAFETY: SSE2 is part of x86-64; the load takes any alignment, and 16 * i + 16 <= BLOCK.
        let (special, high) = unsafe {
            let v = _mm_loadu_si128(block.as_ptr().add(16 * i).cast::<__m128i>());
            let quote = _mm_cmpeq_epi8(v, _mm_set1_epi8(0x22));
            let backslash = _mm_cmpeq_epi8(v, _mm_set1_epi8(0x5c));
            let control = _mm_cmpeq_epi8(_mm_min_epu8(v, _mm_set1_epi8(0x1f)), v);
            let special = _mm_or_si128(_mm_or_si128(quote, backslash), control);
            (_mm_movemask_epi8(special) as u32, _mm_movemask_epi8(v) as u32)
        };
        masks.special |= u64::from(special) << (16 * i);
        masks.high |= u64::from(high) << (16 * i);
    }
    masks
}

/// Eight bytes at a time in a register; exact on every architecture.
#[cfg(not(target_arch = "x86_64"))]
use portable as masks;

#[cfg(any(test, not(target_arch = "x86_64")))]
#[inline(always)]
fn portable(block: &[u8; BLOCK]) -> Masks {
    const LOW: u64 = 0x0101_0101_0101_0101;
    const HIGH: u64 = 0x8080_8080_8080_8080;
    /// Gathers the top bit of each byte.
    const GATHER: u64 = 0x0002_0408_1020_4081;
    // The top bit of each byte that is zero, without a carry between bytes.
    let zero = |v: u64| !(((v & !HIGH) + !HIGH) | v) & HIGH;
    let gather = |v: u64| (v >> 7).wrapping_mul(GATHER << 7) >> 56;
    let mut masks = Masks::default();
    for (i, word) in block.chunks_exact(8).enumerate() {
        let v = u64::from_le_bytes([
            word[0], word[1], word[2], word[3], word[4], word[5], word[6], word[7],
        ]);
        let control = zero(v & (LOW * 0xe0));
        let special = zero(v ^ (LOW * 0x22)) | zero(v ^ (LOW * 0x5c)) | control;
        masks.special |= gather(special) << (8 * i);
        masks.high |= gather(v & HIGH) << (8 * i);
    }
    masks
}

/// Masks of less than a block.
#[inline(never)]
fn tail_masks(rest: &[u8]) -> Masks {
    if rest.len() <= TINY {
        let mut masks = Masks::default();
        for (i, &byte) in rest.iter().enumerate() {
            let special = byte < b' ' || byte == b'"' || byte == b'\\';
            masks.special |= u64::from(special) << i;
            masks.high |= u64::from(!byte.is_ascii()) << i;
        }
        return masks;
    }
    let mut padded = [0x20; BLOCK];
    padded[..rest.len()].copy_from_slice(rest);
    masks(&padded)
}

/// Walks forward through one chunk, from string to string.
#[derive(Clone, Copy)]
pub(crate) struct Strings<'a> {
    chunk: &'a [u8],
    /// Where the current block begins.
    base: usize,
    masks: Masks,
    /// Bytes outside ASCII in the blocks before the current one, since `mark`.
    seen_high: u64,
    /// Bits of the current block at and after the last `mark`.
    marked: u64,
}

impl<'a> Strings<'a> {
    #[inline(always)]
    pub fn new(chunk: &'a [u8]) -> Self {
        // As if the block before the chunk had been looked at.
        let base = 0_usize.wrapping_sub(BLOCK);
        Strings { chunk, base, masks: Masks::default(), seen_high: 0, marked: 0 }
    }

    /// Masks of the block at `base`; bits past the chunk's end are zero.
    #[inline(always)]
    fn load(self, base: usize) -> Masks {
        let rest = &self.chunk[base..];
        rest.first_chunk().map_or_else(|| tail_masks(rest), masks)
    }

    /// The first quote, backslash or control character at or after `pos`, or the chunk's end.
    ///
    /// `pos` must not be before an earlier answer or `pos` of this walk.
    #[inline(always)]
    pub fn special(&mut self, pos: usize) -> usize {
        let within = pos.wrapping_sub(self.base);
        if within < BLOCK {
            let bits = self.masks.special & (!0 << within);
            if bits != 0 {
                return self.base + bits.trailing_zeros() as usize;
            }
            self.next_block(self.base + BLOCK)
        } else {
            self.next_block(pos)
        }
    }

    #[inline(always)]
    fn next_block(&mut self, mut base: usize) -> usize {
        self.seen_high |= self.masks.high & self.marked;
        self.marked = !0;
        while base < self.chunk.len() {
            let masks = self.load(base);
            if masks.special != 0 {
                self.base = base;
                self.masks = masks;
                return base + masks.special.trailing_zeros() as usize;
            }
            self.seen_high |= masks.high;
            base += BLOCK;
        }
        self.base = self.chunk.len();
        self.masks = Masks::default();
        self.chunk.len()
    }

    /// Forgets the bytes outside ASCII before `pos`.
    #[inline(always)]
    pub fn mark(&mut self, pos: usize) {
        let within = pos.wrapping_sub(self.base);
        self.seen_high = 0;
        self.marked = if within < BLOCK { !0 << within } else { 0 };
    }

    /// Whether a byte of the blocks since `mark` may be outside ASCII; false is certain of
    /// what lies before `end` and before the last answer.
    #[inline(always)]
    pub fn high_until(self, end: usize) -> bool {
        let within = end.wrapping_sub(self.base);
        let bits = if within < BLOCK { !(!0 << within) } else { !0 };
        (self.seen_high | (self.masks.high & self.marked & bits)) != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bytes in which what is looked for is sometimes far apart.
    fn bytes(seed: u64, len: usize) -> Vec<u8> {
        let mut state = seed.wrapping_mul(2).wrapping_add(1);
        let mut next = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            usize::try_from(state >> 40).unwrap_or(0)
        };
        let (rare, kinds) = (next() % 90 + 1, *b"\"\\\x00\x1f\x20\x21\x7f\x80\xa2\xdc");
        (0..len)
            .map(|_| if next() % rare == 0 { kinds[next() % kinds.len()] } else { b'x' })
            .collect()
    }

    fn is_special(byte: u8) -> bool {
        byte < b' ' || byte == b'"' || byte == b'\\'
    }

    #[test]
    fn masks_agree_with_a_byte_loop() {
        for seed in 0..400 {
            let block: [u8; BLOCK] = bytes(seed, BLOCK).try_into().expect("a block");
            let bits = |of: fn(u8) -> bool| {
                (0..BLOCK).map(|at| u64::from(of(block[at])) << at).sum::<u64>()
            };
            for masks in [masks(&block), portable(&block)] {
                assert_eq!(masks.special, bits(is_special));
                assert_eq!(masks.high, bits(|byte| !byte.is_ascii()));
            }
        }
    }

    #[test]
    fn a_walk_agrees_with_a_byte_loop() {
        for seed in 0..400 {
            let bytes = bytes(seed, usize::try_from(seed).unwrap_or(0));
            for from in 0..bytes.len().min(70) {
                let mut strings = Strings::new(&bytes);
                strings.mark(from);
                let mut pos = from;
                while pos < bytes.len() {
                    let found = strings.special(pos);
                    let plain = bytes[pos..].iter().take_while(|&&byte| !is_special(byte)).count();
                    assert_eq!(found, pos + plain);
                    let end = (found + 1).min(bytes.len());
                    if !bytes[from..end].is_ascii() {
                        assert!(strings.high_until(end));
                    }
                    pos = found + 1;
                }
                assert_eq!(strings.high_until(bytes.len()), !bytes[from..].is_ascii());
            }
        }
    }
}
