//! Capture files built by hand, field by field, for the tests here and in `tests/`.

/// A capture file in the making, in one byte order.
#[derive(Debug, Clone, Default)]
pub(crate) struct Build {
    big: bool,
    pub(crate) bytes: Vec<u8>,
}

impl Build {
    /// Nothing yet.
    pub(crate) fn new(big: bool) -> Self {
        Self { big, bytes: Vec::new() }
    }

    /// A pcap file without packets.
    pub(crate) fn pcap(big: bool, nanoseconds: bool, minor: u16) -> Self {
        let magic = if nanoseconds { 0xa1b2_3c4d } else { 0xa1b2_c3d4 };
        let file = Self::new(big).u32(magic).u16(2).u16(minor);
        file.u32(0).u32(0).u32(65_535).u32(0x1000_0001)
    }

    /// A pcapng file with one section that has one Ethernet interface.
    pub(crate) fn pcapng(big: bool) -> Self {
        Self::new(big).section(-1).interface(1, 0, &[])
    }

    /// Sets the byte order of all that follows.
    pub(crate) fn order(mut self, big: bool) -> Self {
        self.big = big;
        self
    }

    pub(crate) fn u16(mut self, value: u16) -> Self {
        let bytes = if self.big { value.to_be_bytes() } else { value.to_le_bytes() };
        self.bytes.extend(bytes);
        self
    }

    pub(crate) fn u32(mut self, value: u32) -> Self {
        let bytes = if self.big { value.to_be_bytes() } else { value.to_le_bytes() };
        self.bytes.extend(bytes);
        self
    }

    pub(crate) fn raw(mut self, bytes: &[u8]) -> Self {
        self.bytes.extend(bytes);
        self
    }

    /// A pcap packet; the captured length is that of `data`.
    pub(crate) fn packet(self, seconds: u32, fraction: u32, original: u32, data: &[u8]) -> Self {
        let captured = data.len() as u32;
        self.u32(seconds).u32(fraction).u32(captured).u32(original).raw(data)
    }

    /// A pcapng block with a body of whole words.
    pub(crate) fn block(self, code: u32, body: &[u8]) -> Self {
        let length = body.len() as u32 + 12;
        self.u32(code).u32(length).raw(body).u32(length)
    }

    fn part(&self) -> Self {
        Self::new(self.big)
    }

    pub(crate) fn section(self, length: i64) -> Self {
        let bytes = if self.big { length.to_be_bytes() } else { length.to_le_bytes() };
        let body = self.part().u32(0x1a2b_3c4d).u16(1).u16(0).raw(&bytes);
        self.block(0x0a0d_0d0a, &body.bytes)
    }

    pub(crate) fn interface(self, link: u16, snaplen: u32, options: &[(u16, &[u8])]) -> Self {
        let body = self.part().u16(link).u16(0).u32(snaplen).options(options);
        self.block(1, &body.bytes)
    }

    pub(crate) fn enhanced(
        self,
        interface: u32,
        ticks: u64,
        data: &[u8],
        options: &[(u16, &[u8])],
    ) -> Self {
        let body = self.part().u32(interface).u32((ticks >> 32) as u32).u32(ticks as u32);
        let length = data.len() as u32;
        let body = body.u32(length).u32(length).raw(data).pad().options(options);
        self.block(6, &body.bytes)
    }

    pub(crate) fn obsolete(self, interface: u16, ticks: u64, data: &[u8]) -> Self {
        let body = self.part().u16(interface).u16(7).u32((ticks >> 32) as u32);
        let length = data.len() as u32;
        let body = body.u32(ticks as u32).u32(length).u32(length + 5).raw(data).pad();
        self.block(2, &body.bytes)
    }

    pub(crate) fn simple(self, original: u32, data: &[u8]) -> Self {
        let body = self.part().u32(original).raw(data).pad();
        self.block(3, &body.bytes)
    }

    /// Options and their end, nothing if there are none.
    fn options(mut self, options: &[(u16, &[u8])]) -> Self {
        for (code, value) in options {
            self = self.u16(*code).u16(value.len() as u16).raw(value).pad();
        }
        if options.is_empty() { self } else { self.u32(0) }
    }

    fn pad(mut self) -> Self {
        // Not zeros: padding is to be kept as it is.
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0xee);
        self
    }
}
