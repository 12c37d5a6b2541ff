//! Multi-snapshot NVM Mapping (NVOverlay §V): everything below the overlay memory controllers.
