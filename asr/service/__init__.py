"""`cepstra serve`: a bundle as a service, over HTTP, WebSockets and Wyoming."""
