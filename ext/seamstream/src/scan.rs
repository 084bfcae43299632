//! Finding line ends, 64 bytes at a time.
//!
//! One pass over a block answers two questions: where CR and LF are, and which
//! bytes are not ASCII. The second is nearly free here and spares the parser a
//! UTF-8 check of every ASCII payload. Here and in `scan_json` alone is `unsafe`: a block
//! is always a `&[u8; 64]`, so no load depends on a length that came from outside.
//! Other architectures than x86-64 take a portable kernel.

#![allow(unsafe_code)]

pub(crate) const BLOCK: usize = 64;

/// What a long line is read by once it is known to be long.
const GROUP: usize = 4 * BLOCK;

/// Blocks without a line end after which a line counts as long.
const LONG_LINE: usize = 8;

/// One bit for each byte of a block, the first byte lowest.
#[derive(Clone, Copy, Default)]
pub(crate) struct Masks {
    /// CR or LF.
    pub eol: u64,
    /// Not ASCII.
    pub high: u64,
}

/// A way to classify a block.
pub(crate) trait Kernel: Copy {
    fn masks(self, block: &[u8; BLOCK]) -> Masks;

    /// Whether a group has a line end, and whether it has a byte outside ASCII.
    fn look(self, group: &[u8; GROUP]) -> (bool, bool);
}

/// Work that is compiled once for each kernel.
pub(crate) trait Job {
    type Output;
    /// Must be `#[inline(always)]`, to become part of the kernel's target features.
    fn run<K: Kernel>(self, kernel: K) -> Self::Output;
}

/// Runs `job` with the best kernel that this machine has.
#[inline(always)]
pub(crate) fn with_kernel<J: Job>(job: J) -> J::Output {
    #[cfg(target_arch = "x86_64")]
    {
        if x86::has_avx2() {
            // SAFETY: `has_avx2` has just said that the features are there.
            unsafe { x86::run_avx2(job) }
        } else {
            x86::run_sse2(job)
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    job.run(Portable)
}

/// Eight bytes at a time in a register; exact on every architecture.
#[cfg(any(test, not(target_arch = "x86_64")))]
#[derive(Clone, Copy)]
pub(crate) struct Portable;

#[cfg(any(test, not(target_arch = "x86_64")))]
impl Kernel for Portable {
    #[inline(always)]
    fn masks(self, block: &[u8; BLOCK]) -> Masks {
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
            let eol = zero(v ^ (LOW * 0x0a)) | zero(v ^ (LOW * 0x0d));
            masks.eol |= gather(eol) << (8 * i);
            masks.high |= gather(v & HIGH) << (8 * i);
        }
        masks
    }

    #[inline(always)]
    fn look(self, group: &[u8; GROUP]) -> (bool, bool) {
        let eol = |&byte: &u8| byte == b'\n' || byte == b'\r';
        (group.iter().any(eol), !group.is_ascii())
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::{BLOCK, GROUP, Job, Kernel, Masks};
    use core::arch::x86_64::{
        __m128i, __m256i, _mm_cmpeq_epi8, _mm_loadu_si128, _mm_movemask_epi8, _mm_or_si128,
        _mm_set1_epi8, _mm_setr_epi8, _mm_setzero_si128, _mm256_broadcastsi128_si256,
        _mm256_cmpeq_epi8, _mm256_loadu_si256, _mm256_or_si256, _mm256_setzero_si256,
        _mm256_shuffle_epi8,
    };
    use std::sync::atomic::{AtomicU8, Ordering};

    /// What [`has_avx2`] found: 0 before it looked. Asking the standard library for four
    /// features costs 30 instructions a chunk.
    static KNOWN: AtomicU8 = AtomicU8::new(0);

    #[inline]
    pub(super) fn has_avx2() -> bool {
        match KNOWN.load(Ordering::Relaxed) {
            0 => detect(),
            known => known == 2,
        }
    }

    #[cold]
    fn detect() -> bool {
        let has = std::arch::is_x86_feature_detected!("avx2")
            && std::arch::is_x86_feature_detected!("bmi1")
            && std::arch::is_x86_feature_detected!("bmi2")
            && std::arch::is_x86_feature_detected!("lzcnt");
        KNOWN.store(1 + u8::from(has), Ordering::Relaxed);
        has
    }

    /// # Safety
    /// The machine must have the features: see [`has_avx2`].
    #[inline(never)]
    #[target_feature(enable = "avx2,bmi1,bmi2,lzcnt")]
    pub(super) unsafe fn run_avx2<J: Job>(job: J) -> J::Output {
        job.run(Avx2(()))
    }

    /// Apart, as `run_avx2` is, so that the callers have neither in them.
    #[inline(never)]
    pub(super) fn run_sse2<J: Job>(job: J) -> J::Output {
        job.run(Sse2)
    }

    /// SSE2, which every x86-64 machine has.
    #[derive(Clone, Copy)]
    pub(super) struct Sse2;

    impl Kernel for Sse2 {
        #[inline(always)]
        #[allow(clippy::cast_sign_loss, clippy::cast_ptr_alignment)]
        fn masks(self, block: &[u8; BLOCK]) -> Masks {
            let mut masks = Masks::default();
            for i in 0..4 {
                // SAFETY: SSE2 is part of x86-64, and 16 * i + 16 <= BLOCK.
                let (eol, high) = unsafe {
                    let v = _mm_loadu_si128(block.as_ptr().add(16 * i).cast::<__m128i>());
                    let lf = _mm_cmpeq_epi8(v, _mm_set1_epi8(0x0a));
                    let cr = _mm_cmpeq_epi8(v, _mm_set1_epi8(0x0d));
                    (_mm_movemask_epi8(_mm_or_si128(lf, cr)) as u32, _mm_movemask_epi8(v) as u32)
                };
                masks.eol |= u64::from(eol) << (16 * i);
                masks.high |= u64::from(high) << (16 * i);
            }
            masks
        }

        #[inline(always)]
        #[allow(clippy::cast_ptr_alignment)]
        fn look(self, group: &[u8; GROUP]) -> (bool, bool) {
            // SAFETY: SSE2 is part of x86-64, and 16 * i + 16 <= GROUP.
            unsafe {
                let (mut eol, mut high) = (_mm_setzero_si128(), _mm_setzero_si128());
                for i in 0..GROUP / 16 {
                    let v = _mm_loadu_si128(group.as_ptr().add(16 * i).cast::<__m128i>());
                    let lf = _mm_cmpeq_epi8(v, _mm_set1_epi8(0x0a));
                    let cr = _mm_cmpeq_epi8(v, _mm_set1_epi8(0x0d));
                    eol = _mm_or_si128(eol, _mm_or_si128(lf, cr));
                    high = _mm_or_si128(high, v);
                }
                (_mm_movemask_epi8(eol) != 0, _mm_movemask_epi8(high) != 0)
            }
        }
    }

    /// The top bit of each byte, by the instruction itself.
    ///
    /// The intrinsic is a comparison to the compiler, which then carries 32 truth values
    /// over branches one by one: 40 % of the parser's time.
    ///
    /// # Safety
    /// The machine must have AVX2.
    #[inline]
    #[target_feature(enable = "avx2")]
    unsafe fn top_bits(v: __m256i) -> u32 {
        let bits: u32;
        // SAFETY: one instruction of AVX2, which the caller promises; it touches no memory.
        unsafe {
            core::arch::asm!(
                "vpmovmskb {bits:e}, {v}",
                bits = lateout(reg) bits,
                v = in(ymm_reg) v,
                options(pure, nomem, nostack, preserves_flags)
            );
        }
        bits
    }

    /// AVX2; only [`run_avx2`] makes one.
    #[derive(Clone, Copy)]
    pub(super) struct Avx2(());

    /// All ones where a byte is CR or LF: a table at whose low nibble only these two
    /// find themselves. A byte with the top bit set finds zero there.
    ///
    /// # Safety
    /// The machine must have AVX2.
    #[inline(always)]
    unsafe fn line_ends(v: __m256i) -> __m256i {
        const NO: i8 = i8::MIN;
        // SAFETY: the caller's promise.
        unsafe {
            let table = _mm256_broadcastsi128_si256(_mm_setr_epi8(
                NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, 0x0a, NO, NO, 0x0d, NO, NO,
            ));
            _mm256_cmpeq_epi8(v, _mm256_shuffle_epi8(table, v))
        }
    }

    impl Kernel for Avx2 {
        #[inline(always)]
        #[allow(clippy::cast_ptr_alignment)]
        fn masks(self, block: &[u8; BLOCK]) -> Masks {
            let mut masks = Masks::default();
            for i in 0..2 {
                // SAFETY: this type exists only inside `run_avx2`, so the machine
                // has AVX2, and 32 * i + 32 <= BLOCK.
                let (eol, high) = unsafe {
                    let v = _mm256_loadu_si256(block.as_ptr().add(32 * i).cast::<__m256i>());
                    (top_bits(line_ends(v)), top_bits(v))
                };
                masks.eol |= u64::from(eol) << (32 * i);
                masks.high |= u64::from(high) << (32 * i);
            }
            masks
        }

        #[inline(always)]
        #[allow(clippy::cast_ptr_alignment)]
        fn look(self, group: &[u8; GROUP]) -> (bool, bool) {
            // SAFETY: as above, and 32 * i + 32 <= GROUP.
            unsafe {
                // Two chains: one alone would wait for itself at every step.
                let zero = _mm256_setzero_si256();
                let (mut eol, mut high) = ([zero; 2], [zero; 2]);
                for i in 0..GROUP / 32 {
                    let v = _mm256_loadu_si256(group.as_ptr().add(32 * i).cast::<__m256i>());
                    eol[i % 2] = _mm256_or_si256(eol[i % 2], line_ends(v));
                    high[i % 2] = _mm256_or_si256(high[i % 2], v);
                }
                let eol = _mm256_or_si256(eol[0], eol[1]);
                let high = _mm256_or_si256(high[0], high[1]);
                (top_bits(eol) != 0, top_bits(high) != 0)
            }
        }
    }
}

/// How far [`NearEols`] look.
const NEAR: usize = 16 * BLOCK;

/// The first line ends of a chunk, for what nearly always is near, in as little code as can be.
///
/// There is none more than [`NEAR`] bytes from the start, nor in a chunk shorter than a block.
pub(crate) struct NearEols<'a, K> {
    chunk: &'a [u8],
    kernel: K,
    /// Where the current block begins, and where the next one.
    base: usize,
    next: usize,
    end: usize,
    /// Bits of the current block: line ends still to come, and bytes outside ASCII.
    eols: u64,
    high: u64,
    /// Bytes outside ASCII in the blocks before the current one.
    seen_high: u64,
}

impl<'a, K: Kernel> NearEols<'a, K> {
    #[inline(always)]
    pub fn new(kernel: K, chunk: &'a [u8]) -> Self {
        let end = if chunk.len() < BLOCK { 0 } else { chunk.len().min(NEAR) };
        NearEols { chunk, kernel, base: 0, next: 0, end, eols: 0, high: 0, seen_high: 0 }
    }

    /// The next CR or LF, whichever comes first.
    #[inline(always)]
    pub fn next_eol(&mut self) -> Option<usize> {
        while self.eols == 0 {
            if self.next >= self.end {
                return None;
            }
            self.base = self.next;
            self.next += BLOCK;
            self.seen_high |= self.high;
            // The last block is read with bytes before it, which are shifted out.
            let at = self.base.min(self.chunk.len() - BLOCK);
            let masks = self.kernel.masks(self.chunk.get(at..)?.first_chunk()?);
            let before = self.base - at;
            (self.eols, self.high) = (masks.eol >> before, masks.high >> before);
        }
        let within = self.eols.trailing_zeros();
        self.eols &= self.eols - 1;
        Some(self.base + within as usize)
    }

    /// Whether a byte before `eol`, the last one given, is outside ASCII.
    #[inline(always)]
    pub fn high_until(&self, eol: usize) -> bool {
        (self.seen_high | (self.high & !(!0 << (eol - self.base)))) != 0
    }
}

/// Walks forward through one chunk from line end to line end.
///
/// A block is classified once; `next_eol` then only consumes bits.
#[derive(Clone, Copy)]
pub(crate) struct Scanner<'a, K> {
    chunk: &'a [u8],
    kernel: K,
    /// Where the current block begins.
    base: usize,
    masks: Masks,
    /// Non-ASCII bytes met in the blocks before the current one, since `mark`.
    seen_high: u64,
    /// Bits of the current block at and after the last `mark`.
    marked: u64,
}

impl<'a, K: Kernel> Scanner<'a, K> {
    #[inline(always)]
    pub fn new(kernel: K, chunk: &'a [u8]) -> Self {
        let mut scanner =
            Scanner { chunk, kernel, base: 0, masks: Masks::default(), seen_high: 0, marked: !0 };
        scanner.masks = scanner.load(0);
        scanner
    }

    /// Masks of the block at `base`; bits past the chunk's end are zero.
    #[inline(always)]
    fn load(&self, base: usize) -> Masks {
        let rest = &self.chunk[base..];
        if let Some(block) = rest.first_chunk::<BLOCK>() {
            return self.kernel.masks(block);
        }
        if let Some(block) = self.chunk.last_chunk::<BLOCK>() {
            // The last block, read again with the bytes before it shifted out.
            let masks = self.kernel.masks(block);
            let before = BLOCK - rest.len();
            if before == BLOCK {
                return Masks::default();
            }
            return Masks { eol: masks.eol >> before, high: masks.high >> before };
        }
        let mut padded = [0; BLOCK];
        padded[..rest.len()].copy_from_slice(rest);
        self.kernel.masks(&padded)
    }

    /// The first CR or LF at or after `pos`.
    ///
    /// `pos` must not be before an earlier answer or `pos` of this scanner.
    #[inline(always)]
    pub fn next_eol(&mut self, pos: usize) -> Option<usize> {
        let within = pos - self.base;
        if within < BLOCK {
            let bits = self.masks.eol & (!0 << within);
            if bits != 0 {
                return Some(self.base + bits.trailing_zeros() as usize);
            }
            self.next_block(self.base + BLOCK)
        } else {
            self.next_block(pos)
        }
    }

    #[inline(always)]
    fn next_block(&mut self, mut base: usize) -> Option<usize> {
        self.seen_high |= self.masks.high & self.marked;
        self.marked = !0;
        let long = base.saturating_add(LONG_LINE * BLOCK);
        while base < self.chunk.len() {
            if base >= long {
                // Back into what has no line end, to where loads do not straddle cache lines.
                base -= self.chunk[base..].as_ptr().addr() % BLOCK;
                while let Some(group) = self.chunk[base..].first_chunk::<GROUP>()
                    && let (false, high) = self.kernel.look(group)
                {
                    self.seen_high |= u64::from(high);
                    base += GROUP;
                }
                if base >= self.chunk.len() {
                    break;
                }
            }
            let masks = self.load(base);
            if masks.eol != 0 {
                self.base = base;
                self.masks = masks;
                return Some(base + masks.eol.trailing_zeros() as usize);
            }
            self.seen_high |= masks.high;
            base += BLOCK;
        }
        self.base = base;
        self.masks = Masks::default();
        None
    }

    /// Forgets the non-ASCII bytes before `pos`.
    #[inline(always)]
    pub fn mark(&mut self, pos: usize) {
        let within = pos - self.base;
        self.seen_high = 0;
        self.marked = if within < BLOCK { !0 << within } else { 0 };
    }

    /// Whether a byte in `mark..end` may be outside ASCII; false is certain.
    ///
    /// `end` must lie at or before the end of what has been scanned.
    #[inline(always)]
    pub fn high_until(&self, end: usize) -> bool {
        let within = end.wrapping_sub(self.base);
        let bits = if within < BLOCK { !(!0 << within) } else { !0 };
        (self.seen_high | (self.masks.high & self.marked & bits)) != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct LineEnds<'a>(&'a [u8], usize);

    impl Job for LineEnds<'_> {
        type Output = (Vec<usize>, bool);

        #[inline(always)]
        fn run<K: Kernel>(self, kernel: K) -> Self::Output {
            let mut scanner = Scanner::new(kernel, self.0);
            scanner.mark(self.1);
            let mut found = Vec::new();
            let mut pos = self.1;
            while pos < self.0.len() {
                let Some(eol) = scanner.next_eol(pos) else {
                    break;
                };
                found.push(eol);
                pos = eol + 1;
            }
            (found, scanner.high_until(self.0.len()))
        }
    }

    struct NearLineEnds<'a>(&'a [u8]);

    impl Job for NearLineEnds<'_> {
        type Output = Vec<(usize, bool)>;

        #[inline(always)]
        fn run<K: Kernel>(self, kernel: K) -> Self::Output {
            let mut eols = NearEols::new(kernel, self.0);
            let mut found = Vec::new();
            while let Some(eol) = eols.next_eol() {
                found.push((eol, eols.high_until(eol)));
            }
            found
        }
    }

    /// A few thousand bytes in which line ends and non-ASCII bytes are sometimes far apart.
    fn bytes(seed: u64, len: usize) -> Vec<u8> {
        let mut state = seed.wrapping_mul(2).wrapping_add(1);
        let mut next = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            state >> 40
        };
        let (rare, kinds) = (next() % 90 + 1, [b'\n', b'\r', 0x80, 0x0b, 0x8a, 0x8d]);
        (0..len)
            .map(|_| {
                if next() % rare == 0 {
                    kinds[usize::try_from(next()).unwrap_or(0) % kinds.len()]
                } else {
                    b'x'
                }
            })
            .collect()
    }

    #[test]
    fn kernels_agree_with_a_byte_loop() {
        for seed in 0..400 {
            let bytes = bytes(seed, usize::try_from(seed).unwrap_or(0) % 300);
            let near = bytes.iter().enumerate().filter(|(_, byte)| matches!(byte, b'\n' | b'\r'));
            let near = near.map(|(at, _)| (at, !bytes[..at].is_ascii()));
            let near: Vec<_> = if bytes.len() < BLOCK { Vec::new() } else { near.collect() };
            assert_eq!(with_kernel(NearLineEnds(&bytes)), near);
            assert_eq!(NearLineEnds(&bytes).run(Portable), near);
            #[cfg(target_arch = "x86_64")]
            assert_eq!(NearLineEnds(&bytes).run(x86::Sse2), near);
            for from in 0..bytes.len().min(70) {
                let ends = (from..bytes.len()).filter(|&at| matches!(bytes[at], b'\n' | b'\r'));
                let want = (ends.collect(), !bytes[from..].is_ascii());
                assert_eq!(with_kernel(LineEnds(&bytes, from)), want);
                assert_eq!(LineEnds(&bytes, from).run(Portable), want);
                #[cfg(target_arch = "x86_64")]
                assert_eq!(LineEnds(&bytes, from).run(x86::Sse2), want);
            }
        }
    }
}
