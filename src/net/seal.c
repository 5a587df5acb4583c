/* SPDX-License-Identifier: Apache-2.0 */
#include "net/seal.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <jansson.h>
#include <sodium.h>

#include "net/b58.h"

#define IDENTITY_FILE_MAX 65536

struct net_identity {
	uint8_t public_key[32], secret_key[32], stamp[24];
	char peer_id[NET_PEER_ID_TEXT];
};

struct net_key {
	uint8_t bytes[NET_KEY_BYTES];
};

int net_seal_init(struct err *err)
{
	if (sodium_init() < 0)
		return err_set(err, -EIO, "cannot initialise the crypto library");
	return 0;
}

static int take_hex(const json_t *root, const char *key, uint8_t *out, size_t len)
{
	const char *text = json_string_value(json_object_get(root, key));
	size_t got = 0;
	if (!text || strlen(text) != len * 2)
		return -EINVAL;
	return sodium_hex2bin(out, len, text, len * 2, NULL, &got, NULL) == 0 && got == len
		       ? 0
		       : -EINVAL;
}

struct net_identity *net_identity_parse(const char *text, size_t len, const char *name,
					struct err *err)
{
	json_error_t why;
	json_t *root = json_loadb(text, len, 0, &why);
	if (!root || !json_is_object(root)) {
		err_set(err, -EINVAL, "cannot read identity '%s': %s", name,
			root ? "not a JSON object" : why.text);
		json_decref(root);
		return NULL;
	}
	struct net_identity *identity = sodium_malloc(sizeof(*identity));
	if (!identity) {
		err_set(err, -ENOMEM, "cannot allocate locked memory for identity '%s'", name);
		json_decref(root);
		return NULL;
	}
	uint8_t derived[32];
	const char *bad = NULL;
	if (take_hex(root, "public_key", identity->public_key, 32) < 0)
		bad = "public_key";
	else if (take_hex(root, "secret_key", identity->secret_key, 32) < 0)
		bad = "secret_key";
	else if (take_hex(root, "proof_of_work_stamp", identity->stamp, 24) < 0)
		bad = "proof_of_work_stamp";
	if (bad) {
		err_set(err, -EINVAL,
			"cannot read identity '%s': '%s' is missing or not hex of the right length",
			name, bad);
	} else if (crypto_scalarmult_base(derived, identity->secret_key) != 0 ||
		   sodium_memcmp(derived, identity->public_key, 32) != 0) {
		err_set(err, -EINVAL,
			"cannot use identity '%s': its public key does not belong to its secret "
			"key",
			name);
		bad = "public_key";
	} else {
		net_peer_id(identity->public_key, identity->peer_id);
		const char *said = json_string_value(json_object_get(root, "peer_id"));
		if (said && strcmp(said, identity->peer_id) != 0) {
			err_set(err, -EINVAL,
				"cannot use identity '%s': its peer_id does not belong to its "
				"public key",
				name);
			bad = "peer_id";
		}
	}
	json_decref(root);
	if (bad) {
		sodium_free(identity);
		return NULL;
	}
	return identity;
}

struct net_identity *net_identity_load(const char *path, struct err *err)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	struct stat st;
	if (fd < 0 || fstat(fd, &st) < 0) {
		err_set(err, -errno, "cannot open identity '%s'", path);
		if (fd >= 0)
			close(fd);
		return NULL;
	}
	if (!S_ISREG(st.st_mode) || st.st_size > IDENTITY_FILE_MAX) {
		err_set(err, -EINVAL,
			"cannot read identity '%s': not a regular file of at most 64 KiB", path);
		close(fd);
		return NULL;
	}
	char *text = sodium_malloc(IDENTITY_FILE_MAX);
	if (!text) {
		err_set(err, -ENOMEM, "cannot allocate locked memory for identity '%s'", path);
		close(fd);
		return NULL;
	}
	size_t len = 0;
	for (;;) {
		ssize_t n = read(fd, text + len, IDENTITY_FILE_MAX - len);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			break;
		len += (size_t)n;
	}
	close(fd);
	struct net_identity *identity = net_identity_parse(text, len, path, err);
	sodium_free(text);
	return identity;
}

void net_identity_free(struct net_identity *identity)
{
	sodium_free(identity);
}

const uint8_t *net_identity_public_key(const struct net_identity *identity)
{
	return identity->public_key;
}

const uint8_t *net_identity_stamp(const struct net_identity *identity)
{
	return identity->stamp;
}

const char *net_identity_peer_id(const struct net_identity *identity)
{
	return identity->peer_id;
}

void net_peer_id(const uint8_t public_key[32], char out[NET_PEER_ID_TEXT])
{
	uint8_t hash[16];
	char text[NET_HASH_TEXT_MAX];
	crypto_generichash(hash, sizeof(hash), public_key, 32, NULL, 0);
	net_hash_text(NET_HASH_PEER, hash, text);
	memcpy(out, text, NET_PEER_ID_TEXT - 1);
	out[NET_PEER_ID_TEXT - 1] = '\0';
}

struct net_key *net_key_new(const struct net_identity *local, const uint8_t remote_public_key[32])
{
	struct net_key *key = sodium_malloc(sizeof(*key));
	if (key && crypto_box_beforenm(key->bytes, remote_public_key, local->secret_key) != 0) {
		sodium_free(key);
		return NULL;
	}
	return key;
}

void net_key_free(struct net_key *key)
{
	sodium_free(key);
}

const uint8_t *net_key_peek(const struct net_key *key)
{
	return key->bytes;
}

static void start_nonce(const uint8_t *i, size_t i_len, const uint8_t *r, size_t r_len,
			const char *label, uint8_t nonce[NET_NONCE_BYTES])
{
	crypto_generichash_state state;
	uint8_t hash[32];
	crypto_generichash_init(&state, NULL, 0, sizeof(hash));
	crypto_generichash_update(&state, i, i_len);
	crypto_generichash_update(&state, r, r_len);
	crypto_generichash_update(&state, (const uint8_t *)label, 12);
	crypto_generichash_final(&state, hash, sizeof(hash));
	memcpy(nonce, hash, NET_NONCE_BYTES);
}

void net_start_nonces(const uint8_t *initiator_chunk, size_t initiator_len,
		      const uint8_t *responder_chunk, size_t responder_len,
		      uint8_t initiator_sends[NET_NONCE_BYTES],
		      uint8_t responder_sends[NET_NONCE_BYTES])
{
	start_nonce(initiator_chunk, initiator_len, responder_chunk, responder_len, "Resp -> Init",
		    initiator_sends);
	start_nonce(initiator_chunk, initiator_len, responder_chunk, responder_len, "Init -> Resp",
		    responder_sends);
}

void net_nonce_add(uint8_t nonce[NET_NONCE_BYTES], uint64_t n)
{
	for (int i = NET_NONCE_BYTES - 1; i >= 0 && n; i--) {
		n += nonce[i];
		nonce[i] = (uint8_t)n;
		n >>= 8;
	}
}

int net_open(const struct net_key *key, const uint8_t nonce[NET_NONCE_BYTES], const uint8_t *body,
	     size_t len, uint8_t *plain)
{
	if (len < NET_AUTH_BYTES)
		return -EBADMSG;
	return crypto_box_open_easy_afternm(plain, body, len, nonce, key->bytes) == 0 ? 0
										      : -EBADMSG;
}

void net_key_stream(const struct net_key *key, const uint8_t nonce[NET_NONCE_BYTES], uint8_t *to,
		    size_t len)
{
	uint8_t block[64];
	crypto_stream_xsalsa20(block, sizeof(block), nonce, key->bytes);
	memcpy(to, block + 32, len < 32 ? len : 32);
	sodium_memzero(block, sizeof(block));
}

void net_sha256_hex(const void *bytes, size_t len, char out[65])
{
	uint8_t digest[crypto_hash_sha256_BYTES];
	crypto_hash_sha256(digest, bytes, len);
	sodium_bin2hex(out, 65, digest, sizeof(digest));
}

int net_pow_ok(const uint8_t public_key[32], const uint8_t stamp[24], double difficulty)
{
	crypto_generichash_state state;
	uint8_t hash[32], target[32] = { 0 };
	crypto_generichash_init(&state, NULL, 0, sizeof(hash));
	crypto_generichash_update(&state, public_key, 32);
	crypto_generichash_update(&state, stamp, 24);
	crypto_generichash_final(&state, hash, sizeof(hash));
	if (difficulty < 0)
		difficulty = 0;
	if (difficulty > 256)
		difficulty = 256;
	unsigned whole = (unsigned)difficulty;
	double rest = difficulty - whole;
	uint64_t m = rest > 0 ? (uint64_t)floor(exp2(54 - rest)) : (1ULL << 54) - 1;
	/* target = m << (202 - whole), ones below; little-endian bytes */
	for (int bit = 0; bit < 256; bit++) {
		int from = bit - (202 - (int)whole);
		int set = from < 0 ? 1 : from < 54 ? (int)(m >> from & 1) : 0;
		target[bit / 8] |= (uint8_t)(set << (bit % 8));
	}
	for (int i = 31; i >= 0; i--) {
		if (hash[i] != target[i])
			return hash[i] < target[i];
	}
	return 1;
}
