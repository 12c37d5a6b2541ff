//! NVOverlay (Wang et al., ISCA 2021): distributed epochs above, a multi-snapshot mapping of the
//! NVM below. This is where the two meet.

pub mod mnm;
