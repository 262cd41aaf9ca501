"""One device, link, collective, pipeline schedule and training method of another package."""
