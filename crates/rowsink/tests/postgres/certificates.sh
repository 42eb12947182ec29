# Makes authorities and certificates in the current directory.
#
#   authority     certificate               of
#   ca.pem        cert.pem, key.pem         this machine
#   devices.pem   device.pem, device.key    a device
#                 renewed.pem, renewed.key  the same device, later
#                 second.pem, second.key    another device
#   others.pem    other.pem, other.key      a stranger
set -e
k='-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes'
for authority in ca devices others; do
    openssl req -x509 $k -keyout $authority.key -out $authority.pem -subj /CN=$authority -days 2
done
sign() {
    openssl req $k -keyout "$3" -out request.pem -subj "/CN=$4"
    printf 'subjectAltName=DNS:%s' "$4" > names
    openssl x509 -req -in request.pem -CA "$1.pem" -CAkey "$1.key" -CAcreateserial -out "$2" -days 2 -extfile names
}
sign ca cert.pem key.pem localhost
sign devices device.pem device.key device
sign devices renewed.pem renewed.key device
sign devices second.pem second.key second
sign others other.pem other.key other
