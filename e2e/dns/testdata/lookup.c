/* Asks the C library for names and prints their addresses, one line a name. */
#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <sys/socket.h>

int main(int argc, char **argv)
{
	for (int i = 1; i < argc; i++) {
		struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM}, *list;
		int err = getaddrinfo(argv[i], NULL, &hints, &list);
		printf("%s", argv[i]);
		if (err != 0)
			printf(" %s", err == EAI_NONAME ? "not found" : gai_strerror(err));
		for (struct addrinfo *a = err ? NULL : list; a; a = a->ai_next) {
			char text[INET6_ADDRSTRLEN];
			void *raw = a->ai_family == AF_INET ? (void *)&((struct sockaddr_in *)a->ai_addr)->sin_addr
							    : (void *)&((struct sockaddr_in6 *)a->ai_addr)->sin6_addr;
			printf(" %s", inet_ntop(a->ai_family, raw, text, sizeof text));
		}
		printf("\n");
	}
	return 0;
}
