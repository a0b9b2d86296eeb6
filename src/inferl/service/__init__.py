"""The service: experiments that are evaluated while their transitions arrive over HTTP, and a page to watch them."""
